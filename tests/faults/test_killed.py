"""`kill -9` at every step of a change: the repository opens, with the old or the new state."""

from __future__ import annotations

import shutil

import pytest

from icectl.errors import RepositoryNotFoundError
from icectl.repository.initialize import initialize_repository
from icectl.repository.open import open_repository
from icectl.repository.ops_log import OpsLogEntry, read_ops_log
from icectl.storage.local import LocalStorage
from tests.faults.killing import MOST_STEPS, kill_at_every_step, state_of

official = pytest.importorskip("tests.official")


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A repository of each spec version, with something to delete."""
    paths = {}
    for spec_version in (1, 2):
        path = tmp_path_factory.mktemp("original") / "repo"
        repository = official.linear_history(path, 2, spec_version)
        repository.create_tag("old", repository.lookup_branch("main"))
        repository.create_branch("old", repository.lookup_branch("main"))
        paths[spec_version] = path
    return paths


@pytest.mark.parametrize(
    ("spec_version", "operation"),
    [
        (1, "create_branch"),
        (1, "reset_branch"),
        (1, "delete_branch"),
        (1, "delete_tag"),
        (1, "update_config"),
        (2, "create_tag"),
        (2, "reset_branch"),
    ],
)
def test_a_change(originals, spec_version, operation, tmp_path):
    path = originals[spec_version]
    copies = [shutil.copytree(path, tmp_path / str(step)) for step in range(MOST_STEPS)]
    roots = kill_at_every_step(operation, copies)
    states = [state_of(root) for root in roots]
    old, new = state_of(path), states[-1]
    # The change happens at one step, and stays.
    assert states == [old] * states.count(old) + [new] * states.count(new)
    assert states.count(old) > 3 and new != old
    for root, state in zip(roots, states, strict=True):
        theirs = official.open_official(root)
        assert theirs.list_branches() == set(state[0])
        for name, snapshot_id in state[0].items():
            assert theirs.lookup_branch(name) == str(snapshot_id)
        repository = open_repository(LocalStorage(str(root)))
        repository.refs.create_tag("afterwards", repository.branches()["main"])
        info = open_repository(repository.storage).info
        if info:
            log = list(read_ops_log(repository.storage, info))
            assert all(isinstance(entry, OpsLogEntry) for entry in log)


@pytest.mark.parametrize("spec_version", [1, 2])
def test_initialization(spec_version, tmp_path):
    places = [tmp_path / str(step) for step in range(MOST_STEPS)]
    roots = kill_at_every_step(f"initialize{spec_version}", places)
    assert len(roots) > 5
    for root in roots:
        storage = LocalStorage(str(root))
        try:
            open_repository(storage)
        except RepositoryNotFoundError:
            initialize_repository(storage, spec_version=spec_version)
        assert official.open_official(root).list_branches() == {"main"}
