"""Each change, on each backend, as the official package sees it; and the other way round."""

from __future__ import annotations

from uuid import uuid4

import pytest

from icectl.errors import (
    ConflictError,
    RefNotFoundError,
    RefusedError,
    UnsupportedError,
    UsageError,
)
from icectl.format.values import decode_metadata
from icectl.model.ids import SnapshotId
from icectl.model.repo import Availability
from icectl.repository import settings
from icectl.repository.config import read_config
from icectl.repository.config_changes import update_config
from icectl.repository.initialize import initialize_repository
from icectl.repository.open import open_repository
from icectl.repository.ops_log import OpsLogEntry, read_ops_log
from icectl.storage.local import LocalStorage
from icectl.storage.open import open_storage
from tests.failures import raises

official = pytest.importorskip("tests.official")


SERVERS = {"seaweedfs": "s3", "moto": "s3", "gcs": "gs"}


class Both:
    """One repository, seen by icectl and by the official package."""

    def __init__(self, where, storage, spec_version):
        self.where = where
        self.spec_version = spec_version
        self.storage = storage
        official.linear_history(where, 3, spec_version)
        self.history = [SnapshotId.parse(i.id) for i in self.theirs.ancestry(branch="main")]

    @property
    def ours(self):
        return open_repository(self.storage)

    @property
    def theirs(self):
        return official.open_official(self.where)

    def agree(self):
        """Same refs for both; the official package commits on top, and the logs match."""
        ours, theirs = self.ours, self.theirs
        assert {n: str(i) for n, i in ours.branches().items()} == {
            n: theirs.lookup_branch(n) for n in theirs.list_branches()
        }
        assert {n: str(i) for n, i in ours.tags().items()} == {
            n: theirs.lookup_tag(n) for n in theirs.list_tags()
        }
        if self.spec_version == 2:
            log = list(read_ops_log(self.storage, ours.info))
            assert all(isinstance(entry, OpsLogEntry) for entry in log)
            assert [(e.update.updated_at, e.update.backup_path) for e in log] == [
                (round(e.updated_at.timestamp() * 1_000_000), e.backup_path)
                for e in theirs.ops_log()
            ]

    def commit(self, branch="main"):
        session = self.theirs.writable_session(branch)
        return SnapshotId.parse(session.commit("on top", allow_empty=True))


def places(*spec_versions):
    return [
        pytest.param(
            (place, version),
            id=f"{place}-v{version}",
            marks=pytest.mark.server if place in SERVERS else (),
        )
        for place in ("local", *SERVERS)
        for version in spec_versions
    ]


@pytest.fixture
def make_both(request, tmp_path, monkeypatch):
    def make(place, spec_version):
        if place == "local":
            path = tmp_path / "repo"
            return Both(path, LocalStorage(str(path)), spec_version)
        server = request.getfixturevalue(f"{place}_server")
        for key, value in server.environment.items():
            monkeypatch.setenv(key, value)
        prefix = uuid4().hex
        storage = open_storage(f"{SERVERS[place]}://{server.bucket}/{prefix}")
        return Both(server.official_storage(prefix), storage, spec_version)

    return make


@pytest.fixture(params=places(1, 2))
def both(request, make_both):
    return make_both(*request.param)


@pytest.fixture(params=places(2))
def both_v2(request, make_both):
    return make_both(*request.param)


@pytest.fixture
def both_v1(make_both):
    return make_both("local", 1)


def test_branches(both):
    tip, parent, *_ = both.history
    both.ours.refs.create_branch("dev", parent)
    both.agree()
    assert both.theirs.lookup_branch("dev") == str(parent)
    new = both.commit("dev")
    assert both.ours.branches()["dev"] == new
    assert both.ours.refs.reset_branch("dev", tip, expect=new) == new
    both.agree()
    new = both.commit("dev")
    assert [i.id for i in both.ours.ancestry(new)][1] == tip
    with pytest.raises(ConflictError):
        both.ours.refs.delete_branch("dev", expect=tip)
    assert both.ours.refs.delete_branch("dev", expect=new) == new
    both.agree()
    assert both.theirs.list_branches() == {"main"}
    both.commit()
    both.agree()


def test_tags(both):
    tip, parent, *_ = both.history
    both.ours.refs.create_tag("v1", parent)
    both.agree()
    both.commit()
    assert both.theirs.lookup_tag("v1") == str(parent)
    assert both.ours.refs.delete_tag("v1") == parent
    both.agree()
    assert both.ours.deleted_tags() == ("v1",)
    with pytest.raises(RefusedError, match="v1"):
        both.ours.refs.create_tag("v1", tip)
    with pytest.raises(official.ic.IcechunkError):
        both.theirs.create_tag("v1", str(tip))
    both.theirs.create_tag("theirs", str(tip))
    both.theirs.delete_tag("theirs")
    with pytest.raises(RefusedError, match="theirs"):
        both.ours.refs.create_tag("theirs", tip)
    assert both.ours.deleted_tags() == ("theirs", "v1")
    both.agree()


def test_refusals_change_nothing(both):
    tip, *_ = both.history
    missing = SnapshotId(bytes(12))
    both.ours.refs.create_tag("tag", tip)
    before = {i.path: both.storage.read(i.path) for i in both.storage.list("")}
    for change, error in [
        (lambda: both.ours.refs.create_branch("main", tip), RefusedError),
        (lambda: both.ours.refs.create_branch("x", missing), RefNotFoundError),
        (lambda: both.ours.refs.create_branch("", tip), UsageError),
        (lambda: both.ours.refs.reset_branch("x", tip), RefNotFoundError),
        (lambda: both.ours.refs.reset_branch("main", missing), RefNotFoundError),
        (lambda: both.ours.refs.reset_branch("main", tip, expect=missing), ConflictError),
        (lambda: both.ours.refs.delete_branch("main"), RefusedError),
        (lambda: both.ours.refs.delete_branch("x"), RefNotFoundError),
        (lambda: both.ours.refs.create_tag("tag", tip), RefusedError),
        (lambda: both.ours.refs.create_tag("x", missing), RefNotFoundError),
        (lambda: both.ours.refs.delete_tag("x"), RefNotFoundError),
    ]:
        with pytest.raises(error):
            change()
    both.ours.refs.reset_branch("main", tip)
    assert {i.path: both.storage.read(i.path) for i in both.storage.list("")} == before


def test_config(both):
    def change(config):
        return {**config, "inline_chunk_threshold_bytes": 4321}

    update_config(both.ours, change)
    both.agree()
    assert both.theirs.config.inline_chunk_threshold_bytes == 4321
    both.commit()
    theirs = both.theirs
    config = theirs.config
    config.inline_chunk_threshold_bytes = 99
    theirs = official.open_official(both.where, config)
    theirs.save_config()
    assert read_config(both.ours)["inline_chunk_threshold_bytes"] == 99
    before = both.storage.read("repo" if both.spec_version == 2 else "config.yaml")
    if both.spec_version == 2:
        update_config(both.ours, dict)
        assert both.storage.read("repo") == before
    both.agree()


def test_config_of_a_repository_without_one(tmp_path):
    for spec_version in (1, 2):
        storage = LocalStorage(str(tmp_path / str(spec_version)))
        initialize_repository(storage, spec_version=spec_version)
        assert read_config(open_repository(storage)) == {}
        update_config(open_repository(storage), lambda _: {"inline_chunk_threshold_bytes": 3})
        theirs = official.open_official(tmp_path / str(spec_version))
        assert theirs.config.inline_chunk_threshold_bytes == 3


def test_version_1_keeps_a_copy_of_the_old_config(both_v1):
    before = both_v1.storage.read("config.yaml")
    update_config(both_v1.ours, lambda config: {**config, "inline_chunk_threshold_bytes": 1})
    copies = [i.path for i in both_v1.storage.list("overwritten")]
    assert before in [both_v1.storage.read(path) for path in copies]
    assert all(path.startswith("overwritten/config.yaml.") for path in copies)


def test_metadata(both_v2):
    both = both_v2
    settings.set_metadata(both.ours, {"b": {"x": [1, 2.5, None]}, "a": "é"})
    both.agree()
    assert both.theirs.metadata == {"a": "é", "b": {"x": [1, 2.5, None]}}
    both.theirs.update_metadata({"c": True})
    assert decode_metadata(both.ours.info.metadata, 2)["c"] is True
    settings.unset_metadata(both.ours, ["a", "b"])
    assert both.theirs.metadata == {"c": True}
    both.commit()
    both.agree()


def test_status(both_v2):
    both = both_v2
    tip, *_ = both.history
    settings.set_status(both.ours, Availability.READ_ONLY, "moving")
    both.agree()
    assert both.theirs.status.limited_availability_reason == "moving"
    with raises(RefusedError, remedy="set-online") as caught:
        both.ours.refs.create_tag("x", tip)
    assert "moving" in caught.value.message  # the stored reason
    with pytest.raises(official.ic.IcechunkError):
        both.commit()
    settings.set_status(both.ours, Availability.ONLINE)
    both.commit()
    theirs = official.ic.RepoStatus(official.ic.RepoAvailability.read_only)
    both.theirs.set_status(theirs)
    with raises(RefusedError, remedy="set-online"):
        both.ours.refs.create_tag("x", tip)
    settings.set_status(both.ours, Availability.ONLINE)
    both.agree()


def test_flags(both_v2):
    both = both_v2
    tip, *_ = both.history
    settings.set_flag(both.ours, 4, False)
    both.agree()
    for create in (
        lambda: both.ours.refs.create_tag("x", tip),
        lambda: both.theirs.create_tag("x", str(tip)),
    ):
        with pytest.raises((RefusedError, official.ic.IcechunkError)):
            create()
    flags = {flag.name: flag.enabled for flag in both.theirs.feature_flags()}
    assert flags == {"move_node": True, "create_tag": False, "delete_tag": True}
    settings.set_flag(both.ours, 4, None)
    both.theirs.create_tag("x", str(tip))
    both.theirs.set_feature_flag("delete_tag", False)
    with raises(RefusedError, remedy="enable-flag", flag="delete_tag"):
        both.ours.refs.delete_tag("x")
    both.agree()


def test_version_1_has_no_place_for_some_things(both_v1):
    for change in (
        lambda: settings.set_status(both_v1.ours, Availability.READ_ONLY),
        lambda: settings.set_metadata(both_v1.ours, {"a": 1}),
        lambda: settings.unset_metadata(both_v1.ours, ["a"]),
        lambda: settings.set_flag(both_v1.ours, 4, False),
    ):
        with pytest.raises(UnsupportedError) as raised:
            change()
        assert raised.value.hint


def test_a_commit_to_a_branch_that_we_moved_is_a_conflict_for_them(both):
    session = both.theirs.writable_session("main")
    both.ours.refs.reset_branch("main", both.history[1])
    with pytest.raises(official.ic.ConflictError):
        session.commit("late", allow_empty=True)
    both.agree()


def test_migrated_repositories_are_changed_like_others(shared_fixtures, tmp_path):
    path = official.copied(shared_fixtures / "test-repo-v2-migrated", tmp_path / "repo")
    storage = LocalStorage(str(path))
    repository = open_repository(storage)
    tip = repository.branches()["main"]
    repository.refs.create_tag("ours", tip)
    theirs = official.open_official(path)
    assert theirs.lookup_tag("ours") == str(tip)
    log = list(read_ops_log(storage, open_repository(storage).info))
    assert len(log) == len(list(theirs.ops_log()))
    theirs.create_tag("theirs", str(tip))
    assert set(open_repository(storage).tags()) >= {"ours", "theirs"}
