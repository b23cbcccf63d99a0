from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from icectl.errors import ConflictError, FormatError
from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.repository.ops_log import read_repo
from icectl.repository.reparent import drop_snapshots
from icectl.storage.local import LocalStorage
from tests.failures import raises
from tests.repository.builders import make_info, sid


def entry(info, number):
    return next(snapshot for snapshot in info.snapshots if snapshot.id == sid(number))


def test_nothing_dropped_is_nothing_changed():
    info = make_info({1: None, 2: 1}, branches={"main": 2})
    assert drop_snapshots(info, frozenset()) == info


def test_the_logs_of_skipped_ancestors_oldest_first():
    info = make_info({1: None, 2: 1, 3: 2, 4: 3}, branches={"main": 4})
    dropped = drop_snapshots(info, {sid(2), sid(3)})
    assert entry(dropped, 4).parent_id == sid(1)
    assert entry(dropped, 4).pruned_ancestor_tx_logs == (sid(2), sid(3))
    assert entry(dropped, 1) == entry(info, 1)
    assert len(dropped.snapshots) == 3


def test_an_ancestors_own_list_goes_before_its_id_and_the_own_list_last():
    info = make_info(
        {1: None, 5: 1, 9: 5, 10: 9},
        branches={"main": 10},
        pruned={5: [2, 3, 4], 9: [6, 7, 8], 10: [20, 21]},
    )
    dropped = drop_snapshots(info, {sid(5), sid(9)})
    expected = [2, 3, 4, 5, 6, 7, 8, 9, 20, 21]
    assert entry(dropped, 10).pruned_ancestor_tx_logs == tuple(map(sid, expected))
    assert entry(dropped, 10).parent_id == sid(1)


def test_two_branches_share_what_was_dropped():
    info = make_info({1: None, 2: 1, 3: 2, 4: 2}, branches={"main": 3, "dev": 4})
    dropped = drop_snapshots(info, {sid(1), sid(2)})
    for number in (3, 4):
        assert entry(dropped, number).parent_id == INITIAL_SNAPSHOT_ID
        assert entry(dropped, number).pruned_ancestor_tx_logs == (sid(1), sid(2))


def test_a_dropped_side_branch_changes_nobody():
    info = make_info({1: None, 2: 1, 3: 1}, branches={"main": 3})
    dropped = drop_snapshots(info, {sid(2)})
    assert dropped.snapshots == tuple(s for s in info.snapshots if s.id != sid(2))


@pytest.mark.parametrize("refs", [{"branches": {"dev": 2}}, {"tags": {"v": 2}}])
def test_a_ref_on_a_dropped_snapshot_is_a_conflict(refs):
    info = make_info({1: None, 2: 1, 3: 2}, **refs)
    with pytest.raises(ConflictError):
        drop_snapshots(info, {sid(2)})


def test_the_same_as_the_official_expiration(tmp_path):
    """Twice, so that pruned lists of the first run are spliced by the second."""
    official = pytest.importorskip("tests.official")
    official.linear_history(tmp_path, 12)
    repository = official.open_official(tmp_path)
    storage = LocalStorage(str(tmp_path))
    history = list(repository.ancestry(branch="main"))
    repository.create_tag("kept", history[6].id)
    for place in (8, 2):
        before = read_repo(storage)
        cutoff = history[place].written_at
        released = official.open_official(tmp_path).expire_snapshots(cutoff)
        assert released
        after = read_repo(storage)
        gone = {SnapshotId.parse(text) for text in released}
        ours = drop_snapshots(before, gone, to_root=True)
        assert ours.snapshots == after.snapshots
    assert any(s.pruned_ancestor_tx_logs for s in after.snapshots)
    assert cutoff < datetime.now(UTC)


def test_the_same_as_the_official_garbage_collection(tmp_path):
    """A new snapshot of a deleted branch survives; its old ancestors go."""
    official = pytest.importorskip("tests.official")
    official.linear_history(tmp_path, 2)
    repository = official.open_official(tmp_path)
    repository.create_branch("side", repository.lookup_branch("main"))
    for number in range(3):
        session = repository.writable_session("side")
        session.commit(f"side {number}", allow_empty=True)
    time.sleep(0.02)
    cutoff = datetime.now(UTC)
    time.sleep(0.02)
    session = repository.writable_session("side")
    session.commit("young", allow_empty=True)
    repository.delete_branch("side")
    storage = LocalStorage(str(tmp_path))
    before = read_repo(storage)
    official.open_official(tmp_path).garbage_collect(cutoff)
    after = read_repo(storage)
    gone = {s.id for s in before.snapshots} - {s.id for s in after.snapshots}
    assert len(gone) == 3
    assert drop_snapshots(before, gone).snapshots == after.snapshots
    assert [len(s.pruned_ancestor_tx_logs) for s in after.snapshots if s.pruned_ancestor_tx_logs]


def test_expiration_goes_to_the_root_past_what_a_tag_keeps():
    info = make_info({1: None, 2: 1, 3: 2, 4: 3}, branches={"main": 4}, tags={"v": 2})
    dropped = drop_snapshots(info, {sid(1), sid(3)}, to_root=True)
    assert entry(dropped, 2).pruned_ancestor_tx_logs == (sid(1),)
    assert entry(dropped, 4).parent_id == INITIAL_SNAPSHOT_ID
    assert entry(dropped, 4).pruned_ancestor_tx_logs == (sid(1), sid(2), sid(3))


def test_a_loop_is_told():
    info = make_info({1: 2, 2: 1, 3: 2}, branches={"dev": 3})
    with raises(FormatError, path="repo"):
        drop_snapshots(info, {sid(1), sid(2)})
