"""A `repo` file that is missing, damaged, or not the continuation of its own backups (V2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from icectl.checks import rules
from icectl.checks.problem import Problem
from icectl.checks.repo import check_repo
from icectl.errors import StorageError
from icectl.format.repo import encode_repo
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    ExpirationRanUpdate,
    MetadataChangedUpdate,
    RepoInfo,
    SnapshotInfo,
    UpdateType,
    ids_of,
)
from icectl.ops.adopt import adopt, find_parent, follow, free_name, info_of, unlisted_snapshots
from icectl.ops.repair.step import Key, Step, aside_name, key_of, read_if_there, repo_step
from icectl.repository.backups import backup_name, list_backups
from icectl.repository.clock import MAX_SKEW, is_ahead, read_write_time
from icectl.repository.edits import DEFAULT_BRANCH, Edited
from icectl.repository.history import state_of
from icectl.repository.lost_history import find_lost_history, find_lost_lines, recovered_name
from icectl.repository.open import repository_at
from icectl.repository.ops_log import REPO_PATH, backup_object, read_repo
from icectl.repository.past import Timeline
from icectl.repository.repository import Repository
from icectl.repository.transitions import created_snapshot
from icectl.repository.update import put_back, with_updates
from icectl.storage.contract import Storage, VersionedBytes

RESTORE = "restore_repo"
RECOVER = "recover_branch"
UNUSABLE = frozenset({"ICE0001"})
"""Nobody can open the repository."""
DAMAGED = frozenset(
    {"ICE0002", "ICE0004", "ICE0005", "ICE0006", "ICE0007", "ICE0008", "ICE0009", "ICE0013"}
)
"""The file can be read, but something of it was lost."""
UNSORTED = frozenset({"ICE0003", "ICE0017"})
"""The same content can be written as the specification wants it."""
MOST_BACKUPS = 100
"""The newest ones, of which the best is chosen."""

State = Literal["sound", "damaged"]
_Recovered = tuple[str, str, Sequence[SnapshotInfo]]
"""The name of a new branch, the branch that its commits followed, and the commits."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup as a repair lists it."""

    path: str
    made_at: int
    state: State
    detail: str | None
    newest_operation: str | None
    updated_at: int | None
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    snapshots: int
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class _Candidate:
    name: str
    made_at: int
    """In milliseconds."""
    data: bytes
    info: RepoInfo | None
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> list[Problem]:
        return [one for one in self.problems if one.rule.severity == "error"]

    @property
    def is_sound(self) -> bool:
        return self.info is not None and bool(self.info.latest_updates) and not self.errors

    @property
    def time(self) -> int:
        """Of its newest operation, which a wrong clock may have put into the future."""
        assert self.info is not None
        return min(self.info.latest_updates[0].updated_at, self.made_at * 1000)

    def describe(self, chosen: bool) -> Backup:
        info = self.info
        newest = info.latest_updates[0] if info is not None and info.latest_updates else None
        return Backup(
            backup_object(self.name),
            self.made_at * 1000,
            "sound" if self.is_sound else "damaged",
            self.errors[0].detail if self.errors else None,
            newest.update_type.kind if newest else None,
            newest.updated_at if newest else None,
            tuple(f"{ref.name} at {ref.snapshot_id}" for ref in info.branches) if info else (),
            tuple(f"{ref.name} at {ref.snapshot_id}" for ref in info.tags) if info else (),
            len(info.snapshots) if info else 0,
            chosen,
        )


@dataclass(slots=True)
class RepoFilePlan:
    steps: list[Step]
    repository: Repository | None
    """The state after the steps that will be executed; None if nothing more can be planned."""
    backups: tuple[Backup, ...] = ()


def plan_repo_file(
    storage: Storage,
    repository: Repository | None,
    problems: Sequence[Problem],
    chosen: Collection[str],
) -> RepoFilePlan:
    """`repository` is what can be read of it; `problems` are those of the level `refs`."""
    keys = [key_of(one) for one in problems if one.object == REPO_PATH]
    codes = {code for code, _ in keys}
    plan = RepoFilePlan([], repository)
    if repository is not None and repository.info is None:
        return plan  # spec version 1
    if repository is not None and any(map(_has_wrong_logs, _snapshots(repository))):
        codes -= {rules.PRUNED_LOGS.code}
    if repository is None or codes & (UNUSABLE | DAMAGED):
        _plan_restore(storage, plan, [one for one in keys if one[0] not in UNSORTED], chosen)
    elif rules.REPO_IS_OLD.code in codes:
        _plan_lost_history(storage, plan, keys)
    if plan.repository is not None and codes & UNSORTED and not codes & (UNUSABLE | DAMAGED):
        _add(
            plan,
            repo_step(
                "sort_repo",
                "write the lists of the repo file in order",
                _sorted,
                mends=[one for one in keys if one[0] in UNSORTED & codes],
            ),
        )
    return plan


def _add(plan: RepoFilePlan, step: Step) -> None:
    assert plan.repository is not None
    plan.steps.append(step)
    plan.repository = step.simulate(plan.repository)


def _snapshots(repository: Repository) -> Sequence[SnapshotInfo]:
    assert repository.info is not None
    return repository.info.snapshots


def _has_wrong_logs(info: SnapshotInfo) -> bool:
    logs = info.pruned_ancestor_tx_logs or ()
    return len({*logs, info.id}) <= len(logs)


def _sorted(info: RepoInfo) -> Edited:
    # An empty list of pruned logs is left out, which only an expiration may do.
    has_empty = any(one.pruned_ancestor_tx_logs == () for one in info.snapshots)
    return (
        replace(
            info,
            branches=tuple(sorted(info.branches, key=lambda ref: ref.name.encode())),
            tags=tuple(sorted(info.tags, key=lambda ref: ref.name.encode())),
            deleted_tags=tuple(sorted(info.deleted_tags, key=str.encode)),
            snapshots=tuple(
                replace(one, pruned_ancestor_tx_logs=one.pruned_ancestor_tx_logs or None)
                for one in sorted(info.snapshots, key=lambda one: one.id)
            ),
        ),
        ExpirationRanUpdate() if has_empty else MetadataChangedUpdate(),
    )


def _read_candidates(storage: Storage) -> list[_Candidate]:
    made = list_backups(storage)
    names = sorted(made, key=made.__getitem__, reverse=True)[:MOST_BACKUPS]
    paths = {backup_object(name): name for name in names}
    found = []
    for path, data in storage.read_many(paths):
        if isinstance(data, StorageError):
            continue
        info, problems = check_repo(data)
        found.append(_Candidate(paths[path], made[paths[path]], data, info, tuple(problems)))
    return sorted(found, key=lambda one: (one.made_at, one.is_sound and one.time), reverse=True)


def _plan_restore(
    storage: Storage, plan: RepoFilePlan, keys: Sequence[Key], chosen: Collection[str]
) -> None:
    candidates = _read_candidates(storage)
    best = max((one for one in candidates if one.is_sound), key=lambda one: one.time, default=None)
    plan.backups = tuple(one.describe(one is best) for one in candidates)
    if best is None:
        plan.repository = None
        return
    found = read_if_there(storage, REPO_PATH)
    is_readable = plan.repository is not None
    recovered = [*_find_last_commits(_state(storage, best))]
    what = "missing" if found is None else "damaged"
    assert best.info is not None
    newest = best.info.latest_updates[0].update_type.kind
    step = Step(
        RESTORE,
        REPO_PATH,
        f"replace the {what} file by its backup {best.name}",
        lambda storage: _put_back(storage, best, found, recovered, damaged=True),
        (f"every change after the newest operation of the backup, {newest}",),
        frozenset(keys) | {(rules.REPO_UNREADABLE.code, REPO_PATH)},
        by_name=is_readable,
    )
    plan.steps.append(step)
    if not step.by_name or RESTORE in chosen:
        _follow_up(storage, plan, best, recovered)
    else:
        plan.repository = None  # what follows from a wrong history would be wrong


def _follow_up(
    storage: Storage, plan: RepoFilePlan, best: _Candidate, recovered: Sequence[_Recovered]
) -> None:
    plan.repository = _state(storage, best)
    for one in recovered:
        _add(plan, _recover_step(*one))


def _state(storage: Storage, candidate: _Candidate) -> Repository:
    assert candidate.info is not None
    return repository_at(storage, candidate.info)


def _put_back(
    storage: Storage,
    best: _Candidate,
    found: VersionedBytes | None,
    recovered: Sequence[_Recovered],
    *,
    damaged: bool,
) -> None:
    """The backup, and in the same write the branches of recovered commits: otherwise nobody would
    look for them after an interruption."""
    now = read_write_time(storage)
    data, info = best.data, best.info
    assert info is not None
    if recovered:
        made: list[UpdateType] = []
        for name, _, chain in recovered:
            info, types = adopt(info, name, chain)
            made += types if isinstance(types, tuple) else (types,)
        data = encode_repo(with_updates(info, tuple(made), now, best.name))
    aside = backup_object(backup_name(now))
    if damaged:
        aside = aside_name(REPO_PATH, now)
    put_back(storage, data, found, aside)


def _find_last_commits(
    repository: Repository, known: Set[SnapshotId] = frozenset()
) -> Iterator[_Recovered]:
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


def _name_branch(repository: Repository, branch: str, chain: Sequence[SnapshotInfo]) -> _Recovered:
    name = free_name(repository, recovered_name(branch, chain[-1].id))
    return name, branch, chain


def _recover_step(
    name: str, branch: str, chain: Sequence[SnapshotInfo], mends: Collection[Key] = ()
) -> Step:
    count = f"{len(chain):,} commits" if len(chain) > 1 else "1 commit"
    return repo_step(
        RECOVER,
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


def _plan_lost_history(storage: Storage, plan: RepoFilePlan, keys: Sequence[Key]) -> None:
    assert plan.repository is not None and plan.repository.info is not None
    info = plan.repository.info
    lost = find_lost_history(Timeline(storage, info), state_of(info).reachable)
    if not lost.backups:
        return
    mends = [one for one in keys if one[0] == rules.REPO_IS_OLD.code]
    newest = lost.backups[0]
    if newest.newest.updated_at > info.latest_updates[0].updated_at:
        continued = read_repo(storage, newest.path)
        if info.latest_updates[0] in Timeline(storage, continued):
            if not _plan_return(storage, plan, newest.name, mends):
                return
            info = continued
    _plan_lost_lines(plan, Timeline(storage, info), mends)


def _plan_lost_lines(plan: RepoFilePlan, timeline: Timeline, mends: Collection[Key]) -> None:
    """Branches for all that only lost timelines list, and for each ref that they set.

    The oldest come first: after an interruption, those that are left are found again by what no
    ref reaches yet.
    """
    assert plan.repository is not None and plan.repository.info is not None
    storage, layout = plan.repository.storage, plan.repository.layout
    reachable = state_of(plan.repository.info).reachable
    lost = find_lost_history(timeline, reachable)
    files = {one.path for one in storage.list(layout.snapshots, with_info=False)}
    there = {id_ for id_ in lost.snapshots if layout.snapshot(id_) in files}
    known = {*ids_of(plan.repository.info.snapshots), *lost.snapshots}
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
            for _, branch, chain in _find_last_commits(repository_at(storage, line.state), known)
        }
        continued = {chain[0].parent_id for _, chain in last.values()} & line.made
        own = line.made | last.keys()
        refs = {ref.snapshot_id: ref.name for ref in reversed(line.unrecovered_refs)}
        targets = {id_: name for id_, name in refs.items() if id_ not in continued | planned}
        for id_, (branch, chain) in last.items():
            found.infos.update((one.id, one) for one in chain)
            known.update(one.id for one in chain)
            targets[id_] = branch
        for id_ in sorted(targets, key=lambda id_: (id_ in own, found.infos[id_].flushed_at)):
            _plan_recovery(plan, found, id_, targets[id_], mends)
        planned.update(targets)
        rest = [found.infos[id_] for id_ in found.infos.keys() & there]
        for one in sorted(rest, key=lambda one: one.flushed_at, reverse=True):
            if one.id not in state_of(plan.repository.info).reachable:
                _plan_recovery(plan, found, one.id, found.names.get(one.id, "commit"), mends)


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
    plan: RepoFilePlan,
    lost: _LostCommits,
    snapshot_id: SnapshotId,
    ref: str,
    mends: Collection[Key],
) -> None:
    assert plan.repository is not None and plan.repository.info is not None
    listed = state_of(plan.repository.info).snapshots
    if snapshot_id in listed:
        chain: Sequence[SnapshotInfo] | None = [listed[snapshot_id]]
    else:
        chain = follow(lost.infos, snapshot_id, listed)
    if chain:
        _add(plan, _recover_step(*_name_branch(plan.repository, ref, chain), mends))


def _plan_return(storage: Storage, plan: RepoFilePlan, name: str, keys: Collection[Key]) -> bool:
    """To the newest state of the same history: the older `repo` is a part of it.

    False if the backup cannot be used.
    """
    candidates = _read_candidates(storage)
    best = next((one for one in candidates if one.name == name and one.is_sound), None)
    plan.backups = tuple(one.describe(one is best) for one in candidates)
    found = read_if_there(storage, REPO_PATH)
    if best is None or found is None:
        return False
    recovered = [*_find_last_commits(_state(storage, best))]
    plan.steps.append(
        Step(
            RESTORE,
            REPO_PATH,
            f"replace the older file by its backup {best.name}, which continues its history",
            lambda storage: _put_back(storage, best, found, recovered, damaged=False),
            mends=frozenset(keys),
        )
    )
    _follow_up(storage, plan, best, recovered)
    return True
