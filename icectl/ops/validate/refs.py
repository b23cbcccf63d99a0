"""The level `refs`: the repo file with its ops log, or the ref files before spec version 2.

The refs lead to the history that the other levels check.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from icectl.checks import rules
from icectl.checks.problem import UNREADABLE, Problem, unreadable
from icectl.checks.repo import (
    check_main,
    check_ops_log_order,
    check_repo,
    check_step,
    check_times,
    invalid_backup_name,
)
from icectl.checks.snapshot import check_ancestry_v1
from icectl.errors import (
    FormatError,
    ObjectNotFoundError,
    ObjectTooLargeError,
    RepositoryNotFoundError,
    StorageError,
)
from icectl.format.config import decode_config_yaml
from icectl.format.envelope import HEADER_SIZE, Generation
from icectl.format.refs import decode_ref
from icectl.model.ids import SnapshotId
from icectl.model.repo import RepoInfo, Update, parents_of
from icectl.ops.config_keys import find_lost_conditions
from icectl.ops.validate.report import Report
from icectl.repository.backups import is_cleared, made_at, times_of
from icectl.repository.config import decode_config
from icectl.repository.history import History, find_reachable, state_of
from icectl.repository.layout import CONFIG_PATH, STANDARD
from icectl.repository.lost_history import find_lost_history, find_protecting
from icectl.repository.open import open_repository, repository_at
from icectl.repository.ops_log import BACKUPS, REPO_PATH, backup_object
from icectl.repository.past import Timeline
from icectl.repository.ref_files import read_ref_names
from icectl.repository.repository import Repository
from icectl.repository.writes import end_of_write
from icectl.storage.contract import Storage
from icectl.storage.paths import is_object_name

BACKUPS_CLEARED = replace(rules.BACKUP_MISSING, other_severity="info")
ATTEMPTS = 5
"""To list ref files and read them all, while others delete some."""


def check_refs(storage: Storage, report: Report, state: str = REPO_PATH) -> Repository | None:
    """The repository in the state that is checked; None if nothing more can be checked.

    `state` is the object with that state: `repo`, or a backup of it.
    """
    if state != REPO_PATH:
        info, problems = check_repo(storage.read(state))
        report.extend(replace(problem, object=state) for problem in problems)
        return None if info is None else repository_at(storage, info)
    try:
        found = storage.read_versioned(REPO_PATH)
    except ObjectNotFoundError:
        return _check_ref_files(storage, report)
    except ObjectTooLargeError as error:
        report.add(unreadable(rules.REPO_UNREADABLE, REPO_PATH, error))
        return None
    info, problems = check_repo(found.data)
    report.extend(problems)
    if info is None:
        return None
    report.extend(check_times(info, found.read_at))
    with suppress(FormatError):  # reported already
        _check_conditions(storage, decode_config(info.config), REPO_PATH, report)
    return repository_at(storage, info)


def check_ops_log(storage: Storage, info: RepoInfo, report: Report) -> None:
    """The ops log of a `repo` that `check_refs` found, and the backups that it names."""
    names = [update.backup_path for update in info.latest_updates if update.backup_path is not None]
    if info.repo_before_updates is not None:
        names.append(info.repo_before_updates)
    sizes = {listed.path: listed.size for listed in storage.list(BACKUPS)}
    timeline = Timeline(storage, info, times_of(sizes))
    _check_lost_history(timeline, report)
    state_before = _name_of_state_before(info)
    read = (state_before, info.repo_before_updates)
    missing: list[str] = []
    for name in dict.fromkeys(names):
        if not is_object_name(name):
            # No object can have this name, so the storage cannot be asked for it.
            report.add(invalid_backup_name(name))
            continue
        path = backup_object(name)
        size = sizes.get(path)
        if path not in sizes:
            missing.append(name)
        elif name not in read and size is not None and size <= HEADER_SIZE:
            # There are too many to read them all; an interrupted write shows in the listing.
            detail = f"its {size} bytes are too few for a header and content"
            report.add(Problem(rules.BACKUP_UNREADABLE, path, detail))
    before = None if state_before is None else _read_backup(timeline, state_before, report)
    if before is not None:
        report.extend(check_step(before, info))
    missing += _check_chain(timeline, report)
    _report_missing(missing, timeline.backups, report)


def _check_lost_history(timeline: Timeline, report: Report) -> None:
    """The backups whose history `repo` does not continue, as far as that matters."""
    # As in gc: unreachable snapshots that `repo` lists are deleted as well.
    reachable = state_of(timeline.info).reachable
    lost = find_lost_history(timeline, reachable)
    for path, error in lost.unreadable.items():
        report.add(unreadable(rules.BACKUP_UNREADABLE, path, error))
    if not lost.backups:
        return
    newest = lost.backups[0]
    files = {info.path for info in timeline.storage.list(STANDARD.snapshots, with_info=False)}
    there = {id_ for id_ in lost.snapshots if STANDARD.snapshot(id_) in files}
    is_older = newest.newest.updated_at > timeline.updates[0].updated_at
    protecting = find_protecting(timeline, lost, reachable, there)
    if not protecting.backups and not is_older:
        return
    there = protecting.snapshots
    path = protecting.backups[0].path if protecting.backups else newest.path
    relation = "it is older than" if is_older else "the newest of those that it does not lead to is"
    snapshots = "1 snapshot" if len(there) == 1 else f"{len(there):,} snapshots"
    detail = f"{relation} {path}; it and older ones list {snapshots} that no ref leads to"
    report.add(Problem(rules.REPO_IS_OLD, REPO_PATH, detail))


def _name_of_state_before(info: RepoInfo) -> str | None:
    end = end_of_write(info.latest_updates, 0)
    return info.latest_updates[end].backup_path if end < len(info.latest_updates) else None


def _read_backup(timeline: Timeline, name: str, report: Report) -> RepoInfo | None:
    if not is_object_name(name):
        report.add(invalid_backup_name(name))
        return None
    path = backup_object(name)
    try:
        return timeline.read_backup(path)
    except UNREADABLE as error:
        report.add(unreadable(rules.BACKUP_UNREADABLE, path, error))
    except ObjectNotFoundError:
        pass  # reported by the listing, or by the check of the chain
    return None


def _report_missing(names: list[str], backups: Mapping[str, int], report: Report) -> None:
    """Those that were cleared by age are one finding of severity info."""
    report.missing += map(backup_object, names)
    cleared = [name for name in names if is_cleared(name, backups)]
    for name in names:
        if name not in cleared:
            detail = "the ops log names it"
            report.add(Problem(rules.BACKUP_MISSING, backup_object(name), detail))
    if cleared:
        are = (
            "copy that the ops log names is"
            if len(cleared) == 1
            else ("copies that the ops log names are")
        )
        detail = f"{len(cleared):,} {are} gone by age: none that is left is older"
        report.add(Problem(BACKUPS_CLEARED, backup_object(cleared[0]), detail))


def _check_chain(timeline: Timeline, report: Report) -> list[str]:
    """The copies that hold older entries: each readable and older than the last.

    Returns the missing one at which the chain ends, unless `repo` itself names it.
    """
    info = timeline.info
    oldest = info.latest_updates[-1].updated_at if info.latest_updates else None
    visited: set[str] = set()
    name = info.repo_before_updates
    while name is not None:
        path = backup_object(name)
        if name in visited:
            problem = Problem(
                rules.BACKUP_UNREADABLE, path, "the chain of backups contains a cycle"
            )
            report.add(problem)
            return []
        visited.add(name)
        state = _read_backup(timeline, name, report)
        if state is None:
            is_there = not is_object_name(name) or _exists(timeline.storage, path)
            if name != info.repo_before_updates and not is_there:
                return [name]
            return []
        updates = state.latest_updates
        report.extend(check_ops_log_order(updates, path))
        if not updates or (oldest is not None and _known_time(updates[0], name) >= oldest):
            detail = "its ops log is not older than what follows"
            report.add(Problem(rules.OPS_LOG_ORDER, path, detail))
            return []
        oldest, name = updates[-1].updated_at, state.repo_before_updates
    return []


def _known_time(update: Update, backup: str) -> int:
    """When the update was written: before its backup was made, even if a clock was wrong."""
    made = made_at(backup)
    return update.updated_at if made is None else min(update.updated_at, made * 1000 - 1)


def _exists(storage: Storage, path: str) -> bool:
    try:
        storage.info(path)
    except ObjectNotFoundError:
        return False
    return True


def _check_ref_files(storage: Storage, report: Report) -> Repository | None:
    for _ in range(ATTEMPTS - 1):
        try:
            repository, problems = _read_ref_files(storage)
            break
        except ObjectNotFoundError:
            pass  # deleted since it was listed
    else:
        repository, problems = _read_ref_files(storage)
    report.extend(problems)
    _check_config_file(storage, report)
    return repository


def _check_config_file(storage: Storage, report: Report) -> None:
    """Without it the defaults apply; a damaged one keeps everybody from opening the repository."""
    try:
        config = decode_config_yaml(storage.read(CONFIG_PATH))
        _check_conditions(storage, config, CONFIG_PATH, report)
    except ObjectNotFoundError:
        pass
    except UNREADABLE as error:
        report.add(unreadable(rules.REPO_VALUE, CONFIG_PATH, error))


def _check_conditions(
    storage: Storage, config: Mapping[str, object], object_: str, report: Report
) -> None:
    keys = find_lost_conditions(config, storage)
    if keys:
        detail = f"{', '.join(keys)}: false"
        report.add(Problem(rules.CONDITIONS_OFF, object_, detail))


def _read_ref_files(storage: Storage) -> tuple[Repository | None, list[Problem]]:
    names = read_ref_names(storage, STANDARD)
    if not names.branches and not names.tags:
        # An early layout, or not a repository, which is not a finding.
        return open_repository(storage), []
    problems = [Problem(rules.REF_FOREIGN, path, "it is not a ref") for path in names.unknown]
    targets: dict[str, SnapshotId] = {}
    for path, data in storage.read_many([*names.branches.values(), *names.tags.values()]):
        if isinstance(data, ObjectTooLargeError):
            problems.append(unreadable(rules.REPO_UNREADABLE, path, data))
            continue
        if isinstance(data, StorageError):
            raise data
        try:
            targets[path] = decode_ref(data)
        except FormatError as error:
            problems.append(unreadable(rules.REPO_UNREADABLE, path, error))
    problems += check_main(names.branches, STANDARD.refs)
    try:
        return open_repository(storage), problems
    except (*UNREADABLE, RepositoryNotFoundError):
        branches = {n: targets[path] for n, path in names.branches.items() if path in targets}
        tags = {n: targets[path] for n, path in names.tags.items() if path in targets}
        return _without_refs(storage, branches, tags), problems


def _without_refs(
    storage: Storage, branches: dict[str, SnapshotId], tags: dict[str, SnapshotId]
) -> Repository | None:
    """The repository of spec version 1 with the refs that can be read."""
    if not branches and not tags:
        return None
    return Repository(storage, Generation.V1, STANDARD, 1, None, branches, tags, ())


def read_history(repository: Repository, refs: Collection[str]) -> History:
    """The history that the refs lead to; without refs, all of it.

    Up to spec version 1 the snapshot files name their parents; an unreadable one ends its ancestry
    here, and the check of that file reports why.
    """
    tips = [repository.resolve(ref).snapshot_id for ref in refs]
    branches, tags = repository.branches(), repository.tags()
    if repository.lists_snapshots:
        parents = parents_of(repository.all_snapshots())
    else:
        parents = _read_parents(repository, tips or [*branches.values(), *tags.values()])
    history = History(parents, branches, tags)
    return history.restricted_to(tips) if refs else history


def check_ancestry(repository: Repository, history: History) -> Iterator[Problem]:
    """Cycles in the parents that snapshot files name; those of the repo file are found there."""
    if repository.lists_snapshots:
        return
    yield from check_ancestry_v1(history.parents, repository.layout)


def _read_parents(
    repository: Repository, tips: Iterable[SnapshotId]
) -> dict[SnapshotId, SnapshotId | None]:
    parents: dict[SnapshotId, SnapshotId | None] = {}

    def parent_of(snapshot_id: SnapshotId) -> SnapshotId | None:
        try:
            parents[snapshot_id] = repository.snapshot_info(snapshot_id).parent_id
        except (*UNREADABLE, ObjectNotFoundError):
            parents[snapshot_id] = None
        return parents[snapshot_id]

    find_reachable(tips, parent_of)
    return parents
