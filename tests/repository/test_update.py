from __future__ import annotations

import time
from dataclasses import replace

import pytest

from icectl.errors import (
    ConflictError,
    FormatError,
    PreconditionFailedError,
    RefusedError,
    Remedy,
    StorageError,
    UnsupportedError,
)
from icectl.format.repo import decode_repo, encode_repo
from icectl.format.values import encode_flexbuffers
from icectl.model.repo import (
    RepoInitializedUpdate,
    RepoMigratedUpdate,
    RepoStatus,
    TagCreatedUpdate,
    Update,
)
from icectl.model.values import UnknownField
from icectl.repository import edits, update
from icectl.repository.open import open_repository
from icectl.repository.ops_log import read_ops_log, read_repo
from icectl.repository.update import update_repo, with_updates
from tests.failures import raises
from tests.faults.storage import FaultyStorage, fail_for_good, fail_once
from tests.repository.builders import make_info, memory_repository, sid

INFO = make_info({1: None}, branches={"main": 1})


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(update, "LONGEST_PAUSE_SECONDS", 0.0)


def tag(name):
    return lambda info: edits.create_tag(info, name, sid(1))


def backups(storage):
    return sorted(info.path for info in storage.list("overwritten"))


def log_of(storage):
    return [entry.update for entry in read_ops_log(storage, read_repo(storage))]


def test_an_update_copies_the_old_state_and_names_the_copy():
    storage = memory_repository(INFO)
    old = storage.read("repo")
    result = update_repo(storage, tag("v1"))
    info = read_repo(storage)
    assert info == result.after
    assert result.before == decode_repo(old)
    newest, first = info.latest_updates
    assert newest.update_type == TagCreatedUpdate("v1") and newest.backup_path is None
    assert newest.updated_at > first.updated_at
    assert backups(storage) == [f"overwritten/{first.backup_path}"]
    assert storage.read(f"overwritten/{first.backup_path}") == old


def test_the_requests_of_an_update():
    storage = FaultyStorage(memory_repository(INFO))
    update_repo(storage, tag("v1"))
    assert storage.methods() == [
        "read_versioned",
        "ensure_conditional_writes",
        "list",
        "put_if_absent",
        "put_if_match",
    ]


def test_what_was_opened_for_an_update_is_not_read_again():
    storage = FaultyStorage(memory_repository(INFO))
    repository = open_repository(storage, for_update=True)
    repository.refs.create_tag("v1", sid(1))
    assert storage.methods().count("read_versioned") == 1
    assert "read" not in storage.methods()
    # The second change finds the state that the first one left.
    repository.refs.create_tag("v2", sid(1))
    assert storage.methods().count("read_versioned") == 2
    assert storage.methods().count("put_if_match") == 2


def test_a_state_that_was_read_long_ago_is_read_again(monkeypatch):
    monkeypatch.setattr(update, "FRESH_SECONDS", 0.0)
    storage = FaultyStorage(memory_repository(INFO))
    open_repository(storage, for_update=True).refs.create_tag("v1", sid(1))
    assert storage.methods().count("read_versioned") == 2


def test_a_lost_race_on_what_was_opened_is_run_again():
    inner = memory_repository(INFO)
    storage = FaultyStorage(inner)
    repository = open_repository(storage, for_update=True)
    update_repo(inner, tag("theirs"))
    repository.refs.create_tag("ours", sid(1))
    assert [ref.name for ref in read_repo(inner).tags] == ["ours", "theirs"]
    assert len(backups(inner)) == 2


def test_beside_the_copy_an_older_repo_is_found_all_the_same():
    """As on an object store; the copy of the refused update is taken back."""
    inner = memory_repository(INFO)
    old = inner.read("repo")
    for name in ("a", "b"):
        update_repo(inner, tag(name))
    inner.put_if_match("repo", old, inner.read_versioned("repo").version)
    there = backups(inner)
    storage = FaultyStorage(inner)
    storage.is_object_store = True
    with raises(FormatError, path="repo", remedy="return-or-accept-older-repo"):
        update_repo(storage, tag("c"))
    assert backups(inner) == there
    assert inner.read("repo") == old


def refuse(info):
    raise RefusedError("no")


@pytest.mark.parametrize(
    ("change", "error"), [(refuse, RefusedError), (lambda info: (info, None), None)]
)
def test_a_refusal_or_nothing_to_do_writes_nothing(change, error):
    storage = FaultyStorage(memory_repository(INFO))
    if error:
        with pytest.raises(error):
            update_repo(storage, change)
    else:
        result = update_repo(storage, change)
        assert result.before == result.after
    assert storage.methods() == ["read_versioned"]


def test_what_icectl_cannot_carry_it_does_not_rewrite(monkeypatch):
    storage = memory_repository(INFO)
    unknown = (UnknownField("Repo", 14, 1),)
    monkeypatch.setattr(
        update, "decode_repo", lambda data: replace(decode_repo(data), unknown_fields=unknown)
    )
    with pytest.raises(UnsupportedError):
        update_repo(storage, tag("v1"))
    assert backups(storage) == []


@pytest.mark.parametrize("availability", [1, 2, 7])
def test_a_repository_that_is_not_online_is_not_changed(availability):
    status = RepoStatus(availability, 5, "moving house")
    storage = memory_repository(replace(INFO, status=status))
    with raises(RefusedError, remedy="set-online") as caught:
        update_repo(storage, tag("v1"))
    assert "moving house" in caught.value.message  # the stored reason
    assert backups(storage) == []
    update_repo(storage, lambda info: edits.set_status(info, 0, None, 6), whatever_status=True)
    update_repo(storage, tag("v1"))


def test_time_moves_where_the_clock_does_not():
    future = time.time_ns() // 1000 + 500 * 1_000_000
    storage = memory_repository(
        replace(INFO, latest_updates=(Update(RepoInitializedUpdate(), future),))
    )
    for name in ("a", "b"):
        update_repo(storage, tag(name))
    times = [entry.updated_at for entry in read_repo(storage).latest_updates]
    assert times == [future + 2, future + 1, future]


def race(storage, *names):
    """Somebody else creates a tag before each of our next puts."""
    rest = list(names)

    def hook(request):
        if request.method == "put_if_match" and rest:
            update_repo(storage, tag(rest.pop(0)))

    return hook


def test_a_lost_race_is_run_again_and_leaves_no_copy_behind():
    inner = memory_repository(INFO)
    storage = FaultyStorage(inner, before=race(inner, "theirs 1", "theirs 2"))
    update_repo(storage, tag("ours"))
    info = read_repo(inner)
    assert [ref.name for ref in info.tags] == ["ours", "theirs 1", "theirs 2"]
    assert [e.update_type.kind for e in info.latest_updates] == ["tag_created"] * 3 + [
        "repo_initialized"
    ]
    assert backups(inner) == sorted(
        f"overwritten/{e.backup_path}" for e in info.latest_updates if e.backup_path
    )


def test_the_change_sees_what_the_winner_did():
    inner = memory_repository(INFO)
    storage = FaultyStorage(inner, before=race(inner, "same"))
    with pytest.raises(RefusedError, match="same"):
        update_repo(storage, tag("same"))
    assert len(backups(inner)) == 1


def test_the_retries_end(monkeypatch):
    monkeypatch.setattr(update, "MAX_ATTEMPTS", 5)
    inner = memory_repository(INFO)
    storage = FaultyStorage(
        inner, before=fail_for_good("put_if_match", "repo", PreconditionFailedError("repo"))
    )
    with pytest.raises(ConflictError):
        update_repo(storage, tag("ours"))
    assert storage.methods().count("put_if_match") == 5
    assert read_repo(inner) == INFO
    assert backups(inner) == []


@pytest.mark.parametrize("others", [[], ["x"], ["x", "y", "z"]])
@pytest.mark.parametrize("answer", [PreconditionFailedError("repo"), StorageError("timed out")])
@pytest.mark.parametrize("limit", [1, 1000])
def test_our_own_write_is_recognised_after_a_lost_answer(others, answer, limit):
    """Even when others have written since, and when the log has overflowed meanwhile."""
    config = encode_flexbuffers({"num_updates_per_repo_info_file": limit})
    inner = memory_repository(replace(INFO, config=config))
    lost = False

    def hook(request):
        nonlocal lost
        if request.method == "put_if_match" and not lost:
            lost = True
            for name in others:
                update_repo(inner, tag(name))
            raise answer

    update_repo(FaultyStorage(inner, after=hook), tag("ours"))
    created = [e.update_type.name for e in log_of(inner) if e.update_type.kind == "tag_created"]
    assert created == [*reversed(others), "ours"]


def test_a_failure_before_the_write_is_told_and_changes_nothing():
    inner = memory_repository(INFO)
    storage = FaultyStorage(inner, before=fail_once("put_if_match"))
    with pytest.raises(StorageError) as caught:
        update_repo(storage, tag("ours"))
    assert caught.value.hint is None  # not known to have failed has one
    assert read_repo(inner) == INFO


def test_not_knowing_is_told():
    inner = memory_repository(INFO)
    gone = fail_for_good("read")
    storage = FaultyStorage(inner, before=gone, after=fail_once("put_if_match"))
    with pytest.raises(StorageError) as raised:
        update_repo(storage, tag("ours"))
    assert raised.value.hint == Remedy("look-at-ops-log")


def test_a_failing_backup_stops_the_update():
    inner = memory_repository(INFO)
    storage = FaultyStorage(inner, before=fail_for_good("put_if_absent", "overwritten/"))
    with pytest.raises(StorageError):
        update_repo(storage, tag("ours"))
    assert read_repo(inner) == INFO


def test_overflow_keeps_every_entry_reachable():
    config = encode_flexbuffers({"num_updates_per_repo_info_file": 3})
    storage = memory_repository(replace(INFO, config=config))
    for number in range(10):
        update_repo(storage, tag(f"t{number}"))
    assert len(read_repo(storage).latest_updates) == 3
    log = log_of(storage)
    assert [e.update_type.name for e in log[:-1]] == [f"t{n}" for n in reversed(range(10))]
    assert log[-1].update_type == RepoInitializedUpdate()
    assert log[0].backup_path is None
    for entry, state in zip(log[1:], range(9, -1, -1), strict=True):
        assert len(read_repo(storage, f"overwritten/{entry.backup_path}").tags) == state


def test_entries_without_a_backup_stay_in_the_file():
    """A migration writes several entries at once, with nothing to go back to."""
    updates = [Update(RepoMigratedUpdate(1, 2), 30)]
    updates += [Update(TagCreatedUpdate(f"old {n}"), n) for n in (20, 10)]
    info = replace(
        INFO,
        latest_updates=tuple(updates),
        config=encode_flexbuffers({"num_updates_per_repo_info_file": 2}),
    )
    first = with_updates(info, [TagCreatedUpdate("new")], 40, "repo.1")
    assert len(first.latest_updates) == 4 and first.repo_before_updates is None
    second = with_updates(first, [TagCreatedUpdate("newer")], 50, "repo.2")
    assert [u.updated_at for u in second.latest_updates] == [50, 40]
    assert second.repo_before_updates == "repo.1"


def test_a_damaged_repo_is_named():
    storage = memory_repository(INFO)
    damaged = encode_repo(INFO)[:60]
    version = storage.read_versioned("repo").version
    storage.put_if_match("repo", damaged, version)
    with raises(FormatError, path="repo"):
        update_repo(storage, tag("x"))


@pytest.mark.parametrize("ahead", [700 * 1_000_000, None])
def test_nothing_follows_an_operation_from_the_future(ahead):
    newest = 2**64 - 1 if ahead is None else time.time_ns() // 1000 + ahead
    storage = memory_repository(
        replace(INFO, latest_updates=(Update(RepoInitializedUpdate(), newest),))
    )
    before = storage.read("repo")
    with raises(RefusedError, remedy="repair-ops-log"):
        update_repo(storage, tag("v1"))
    assert (storage.read("repo"), backups(storage)) == (before, [])
