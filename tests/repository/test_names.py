from __future__ import annotations

import pytest

from icectl.errors import UsageError
from icectl.repository.names import check_new_name, nearest_hint


@pytest.mark.parametrize("spec_version", [1, 2])
@pytest.mark.parametrize("name", ["main", "a b", "v1.0", "-x", "branch:x", ".", "..", "it works!"])
def test_names_that_every_version_takes(name, spec_version):
    check_new_name(name, "branch", spec_version)


@pytest.mark.parametrize("name", ["feature/x", "é", "a~1", "100%", "x" * 300, "#1"])
def test_names_that_only_version_2_takes(name):
    check_new_name(name, "tag", 2)
    with pytest.raises(UsageError):
        check_new_name(name, "tag", 1)


@pytest.mark.parametrize("spec_version", [1, 2])
@pytest.mark.parametrize("name", ["", "a\nb", "\0", "a\x1b[31m"])
def test_names_that_nobody_can_type(name, spec_version):
    with pytest.raises(UsageError):
        check_new_name(name, "branch", spec_version)


def test_the_nearest_name():
    known = ["main", "development", "release-1"]
    assert nearest_hint("mian", known) == "did you mean main?"
    assert nearest_hint("Developmnt", known) == "did you mean development?"
    assert nearest_hint("xyz", known) is None


@pytest.mark.parametrize("spec_version", [1, 2])
def test_the_official_package_finds_names_that_we_allow(tmp_path, spec_version):
    official = pytest.importorskip("tests.official")
    from icectl.model.ids import INITIAL_SNAPSHOT_ID
    from icectl.repository.open import open_repository
    from icectl.storage.local import LocalStorage

    official.ic.Repository.create(official.storage_of(tmp_path), spec_version=spec_version)
    names = ["a b", "v1.0", "-x", "branch:x", "..", "it works!", "@(x),;='&$+"]
    if spec_version == 2:
        names += ["feature/x", "é", "a~1", "100%"]
    repository = open_repository(LocalStorage(str(tmp_path)))
    for name in names:
        repository.refs.create_branch(name, INITIAL_SNAPSHOT_ID)
        repository.refs.create_tag(name, INITIAL_SNAPSHOT_ID)
    theirs = official.open_official(tmp_path)
    assert theirs.list_branches() == {"main", *names}
    assert theirs.list_tags() == set(names)
    for name in names:
        assert theirs.lookup_branch(name) == theirs.lookup_tag(name) == str(INITIAL_SNAPSHOT_ID)
