"""Commits that `repo` does not list any more: each line of them gets a branch (V2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import partial

from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    MetadataChangedUpdate,
    RepoInfo,
    SnapshotInfo,
)
from icectl.ops.adopt import adopt, find_parent, follow, free_name, info_of, unlisted_snapshots
from icectl.ops.repair.steps import Key, Step, repo_step
from icectl.repository.clock import MAX_SKEW, is_ahead
from icectl.repository.edits import DEFAULT_BRANCH, Edited
from icectl.repository.history import State, state_of
from icectl.repository.lost_history import find_lost_history, find_lost_lines, recovered_name
from icectl.repository.open import repository_at
from icectl.repository.ops_log import read_repo
from icectl.repository.past import Timeline
from icectl.repository.repository import Repository
from icectl.repository.transitions import created_snapshot

Recovered = tuple[str, str, Sequence[SnapshotInfo]]
"""The name of a new branch, the branch that its commits followed, and the commits."""


def plan_lost_lines(
    repository: Repository, timeline: Timeline, mends: Collection[Key]
) -> Iterator[Step]:
    """Branches for all that only lost timelines list, and for each ref that they set.

    Commits that no backup lists come first, since nothing else protects them. Then come refs, the
    oldest of them first: after an interruption, those that are left are found again by what no ref
    reaches yet.
    """
    storage, layout = repository.storage, repository.layout
    state = _state(repository)
    reachable = state.reachable
    lost = find_lost_history(timeline, reachable)
    files = {one.path for one in storage.list(layout.snapshots, with_info=False)}
    there = {id_ for id_ in lost.snapshots if layout.snapshot(id_) in files}
    known = {*state.parents, *lost.snapshots}
    known.update(id_ for one in timeline.updates if (id_ := created_snapshot(one)) is not None)
    planned: set[SnapshotId] = set()
    for line in find_lost_lines(timeline, lost, reachable | there):
        if line.is_recovered:
            continue
        found = _LostCommits()
        for backup in line.backups:
            found.add(read_repo(storage, backup.path))
        # The last commit of the lost history is in no backup.
        last = {
            chain[-1].id: (branch, chain)
            for _, branch, chain in find_last_commits(repository_at(storage, line.state), known)
        }
        continued = {chain[0].parent_id for _, chain in last.values()} & line.made
        own = line.made | last.keys()
        refs = {ref.snapshot_id: ref.name for ref in reversed(line.unrecovered_refs)}
        targets = {id_: name for id_, name in refs.items() if id_ not in continued | planned}
        for id_, (branch, chain) in last.items():
            found.infos.update((one.id, one) for one in chain)
            known.update(one.id for one in chain)
            targets[id_] = branch
        planned.update(targets)
        oldest_first = sorted(
            targets, key=lambda id_: (id_ not in last, id_ in own, found.infos[id_].flushed_at)
        )
        rest = found.infos.keys() & there - targets.keys()
        newest_first = sorted(rest, key=lambda id_: found.infos[id_].flushed_at, reverse=True)
        for id_ in (*oldest_first, *newest_first):
            if id_ in reachable and id_ not in targets:
                continue
            name = targets.get(id_) or found.names.get(id_, "commit")
            step = _plan_recovery(repository, found, id_, name, mends)
            if step is not None:
                yield step
                repository = step.simulate(repository)
                reachable = _state(repository).reachable


@dataclass(slots=True)
class _LostCommits:
    """What the states of a lost timeline say, where they differ the newest one."""

    infos: dict[SnapshotId, SnapshotInfo] = field(default_factory=dict)
    names: dict[SnapshotId, str] = field(default_factory=dict)
    """Of a ref at the snapshot."""

    def add(self, older: RepoInfo) -> None:
        for one in older.snapshots:
            self.infos.setdefault(one.id, one)
        for ref in (*older.branches, *older.tags):
            self.names.setdefault(ref.snapshot_id, ref.name)


def _plan_recovery(
    repository: Repository,
    lost: _LostCommits,
    snapshot_id: SnapshotId,
    ref: str,
    mends: Collection[Key],
) -> Step | None:
    listed = _state(repository).snapshots
    if snapshot_id in listed:
        chain: Sequence[SnapshotInfo] | None = [listed[snapshot_id]]
    else:
        chain = follow(lost.infos, snapshot_id, listed)
    return recover_step(*_name_branch(repository, ref, chain), mends) if chain else None


def _state(repository: Repository) -> State:
    assert repository.info is not None
    return state_of(repository.info)


def find_last_commits(
    repository: Repository, known: Set[SnapshotId] = frozenset()
) -> Iterator[Recovered]:
    """Commits that no backup lists: their logs lead from the tip of a branch to them.

    Those that are `known` are of another history.
    """
    info = repository.info
    assert info is not None
    newest = info.latest_updates[0].updated_at
    if info.unknown_fields or is_ahead(newest, repository.storage.read_clock()):
        return  # the backup can only be put back as it is
    # Of several names for one tip, main counts.
    by_name = sorted(info.branches, key=lambda ref: (ref.name == DEFAULT_BRANCH, ref.name))
    tips = {ref.snapshot_id: ref.name for ref in by_name}
    found = sorted(
        unlisted_snapshots(repository, newest - MAX_SKEW, known), key=lambda one: one.flushed_at
    )
    infos: dict[SnapshotId, SnapshotInfo] = {}
    ends: dict[SnapshotId, str] = {}
    for snapshot in found:
        # A recovered commit may have followed another one.
        parent = find_parent(repository, snapshot, [*reversed(infos), *reversed(tips)])
        if parent is not None:
            ends[snapshot.id] = ends.pop(parent, "") or tips.get(parent, "commit")
            infos[snapshot.id] = info_of(snapshot, parent)
    listed = {one.id: one for one in info.snapshots}
    for snapshot_id, branch in ends.items():
        chain = follow(infos, snapshot_id, listed)
        if chain:
            yield _name_branch(repository, branch, chain)


def _name_branch(repository: Repository, branch: str, chain: Sequence[SnapshotInfo]) -> Recovered:
    name = free_name(repository, recovered_name(branch, chain[-1].id))
    return name, branch, chain


def recover_step(
    name: str, branch: str, chain: Sequence[SnapshotInfo], mends: Collection[Key] = ()
) -> Step:
    count = f"{len(chain):,} commits" if len(chain) > 1 else "1 commit"
    return repo_step(
        "recover_branch",
        f"create the branch {name} for {count} that followed {branch}",
        partial(_adopt_unless_there, branch=name, chain=chain),
        object_=f"branch:{name}",
        mends=mends,
        accept_older=True,
    )


def _adopt_unless_there(info: RepoInfo, *, branch: str, chain: Sequence[SnapshotInfo]) -> Edited:
    if any(ref.name == branch and ref.snapshot_id == chain[-1].id for ref in info.branches):
        return info, MetadataChangedUpdate()
    return adopt(info, branch, chain)
