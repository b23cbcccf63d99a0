"""A `repo` file that is missing, damaged, or not the continuation of its own backups (V2), and
settings in it that keep official clients from safe writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from icectl.checks import rules
from icectl.checks.problem import Problem
from icectl.checks.repo import check_repo
from icectl.errors import StorageError
from icectl.format.repo import encode_repo
from icectl.model.repo import (
    ExpirationRanUpdate,
    MetadataChangedUpdate,
    RepoInfo,
    SnapshotInfo,
    UpdateType,
)
from icectl.ops.adopt import adopt
from icectl.ops.config_keys import find_lost_conditions, set_key
from icectl.ops.repair import NamedStep
from icectl.ops.repair.lost_lines import Recovered, find_last_commits, plan_lost_lines, recover_step
from icectl.ops.repair.steps import Key, Step, aside_name, key_of, read_if_there, repo_step
from icectl.repository.backups import backup_name, list_backups
from icectl.repository.clock import is_ahead, read_write_time
from icectl.repository.config import config_object, read_config
from icectl.repository.config_changes import update_config
from icectl.repository.edits import Edited, leave_log_behind
from icectl.repository.history import state_of
from icectl.repository.lost_history import find_lost_history
from icectl.repository.open import open_repository, repository_at
from icectl.repository.ops_log import REPO_PATH, backup_object, read_repo
from icectl.repository.past import Timeline
from icectl.repository.repository import Repository
from icectl.repository.update import put_back, with_updates
from icectl.storage.contract import Storage, VersionedBytes

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
    recovered = [*find_last_commits(_state(storage, best))]
    what = "missing" if found is None else "damaged"
    assert best.info is not None
    newest = best.info.latest_updates[0].update_type.kind
    step = Step(
        NamedStep.RESTORE_REPO,
        REPO_PATH,
        f"replace the {what} file by its backup {best.name}",
        lambda storage: _put_back(storage, best, found, recovered, damaged=True),
        (f"every change after the newest operation of the backup, {newest}",),
        frozenset(keys) | {(rules.REPO_UNREADABLE.code, REPO_PATH)},
        by_name=is_readable,
    )
    plan.steps.append(step)
    if not step.by_name or NamedStep.RESTORE_REPO in chosen:
        _follow_up(storage, plan, best, recovered)
    else:
        plan.repository = None  # what follows from a wrong history would be wrong


def _follow_up(
    storage: Storage, plan: RepoFilePlan, best: _Candidate, recovered: Sequence[Recovered]
) -> None:
    plan.repository = _state(storage, best)
    for one in recovered:
        _add(plan, recover_step(*one))


def _state(storage: Storage, candidate: _Candidate) -> Repository:
    assert candidate.info is not None
    return repository_at(storage, candidate.info)


def _put_back(
    storage: Storage,
    best: _Candidate,
    found: VersionedBytes | None,
    recovered: Sequence[Recovered],
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
    for step in plan_lost_lines(plan.repository, Timeline(storage, info), mends):
        _add(plan, step)


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
    recovered = [*find_last_commits(_state(storage, best))]
    plan.steps.append(
        Step(
            NamedStep.RESTORE_REPO,
            REPO_PATH,
            f"replace the older file by its backup {best.name}, which continues its history",
            lambda storage: _put_back(storage, best, found, recovered, damaged=False),
            mends=frozenset(keys),
        )
    )
    _follow_up(storage, plan, best, recovered)
    return True


def plan_settings(repository: Repository, now: int) -> Iterator[Step]:
    """Needs no file but the one that was opened; `now` is the storage's time."""
    # Nothing else is written while the ops log is locked.
    yield from _plan_ops_log(repository, now)
    yield from _plan_conditions(repository)


def _plan_ops_log(repository: Repository, now: int) -> Iterator[Step]:
    """Leave entries from the future behind, in the backup that the new newest entry follows.

    They keep their times there: no entry of the log and no backup is rewritten, so the provenance
    of every state can still be checked.
    """

    def is_locked(info: RepoInfo) -> bool:
        return bool(info.latest_updates) and is_ahead(info.latest_updates[0].updated_at, now)

    def edit(info: RepoInfo) -> Edited:
        return leave_log_behind(info) if is_locked(info) else (info, MetadataChangedUpdate())

    if repository.info is not None and is_locked(repository.info):
        yield repo_step(
            "restart_ops_log",
            "add a current entry to the ops log",
            edit,
            mends=[(rules.FUTURE_TIME.code, REPO_PATH)],
            # Setting the status is an operation too, and is refused until this one is done.
            whatever_status=True,
        )


def _plan_conditions(repository: Repository) -> Iterator[Step]:
    def find(config: dict[str, object]) -> list[str]:
        return find_lost_conditions(config, repository.storage)

    def reset(config: dict[str, object]) -> dict[str, object]:
        for key in find(config):
            config = set_key(config, key, None)
        return config

    if find(read_config(repository)):
        object_ = config_object(repository)
        yield Step(
            "reset_storage_settings",
            object_,
            "enable the conditional writes of official clients",
            lambda storage: update_config(open_repository(storage), reset),
            mends=frozenset({(rules.CONDITIONS_OFF.code, object_)}),
        )
