"""The level `refs`: the repo file with its ops log, or the ref files before spec version 2."""

from __future__ import annotations

from collections.abc import Iterator

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
from icectl.model.repo import RepoInfo
from icectl.ops.validate import metadata_rules as rules
from icectl.ops.validate.check_repo import check_ops_log_order, check_repo, check_step
from icectl.ops.validate.history import History
from icectl.ops.validate.problem import UNREADABLE, Problem, Report, unreadable
from icectl.repository.backups import check_newest
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.layout import CONFIG_PATH, STANDARD
from icectl.repository.open import open_repository, repository_at
from icectl.repository.ops_log import BACKUPS, REPO_PATH, backup_object, read_repo
from icectl.repository.ref_files import read_ref_names
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage
from icectl.storage.paths import is_object_name

ATTEMPTS = 5
"""To list ref files and read them all, while others delete some."""


def check_refs(storage: Storage, report: Report) -> Repository | None:
    """The repository in the state that is judged; None when nothing more can be looked at."""
    try:
        data = storage.read(REPO_PATH)
    except ObjectNotFoundError:
        return _check_ref_files(storage, report)
    except ObjectTooLargeError as error:
        report.add(unreadable(rules.REPO_UNREADABLE, REPO_PATH, error))
        return None
    info, problems = check_repo(data)
    report.extend(problems)
    if info is None:
        return None
    _check_ops_log(storage, info, report)
    return repository_at(storage, info)


def _check_ops_log(storage: Storage, info: RepoInfo, report: Report) -> None:
    names = [update.backup_path for update in info.latest_updates if update.backup_path is not None]
    if info.repo_before_updates is not None:
        names.append(info.repo_before_updates)
    sizes = {listed.path: listed.size for listed in storage.list(BACKUPS)}
    try:
        check_newest(storage, info)
    except FormatError as error:
        rule = rules.REPO_IS_OLD if error.path == REPO_PATH else rules.BACKUP_UNREADABLE
        report.add(Problem(rule, error.path or REPO_PATH, error.reason))
    state_before = _name_of_state_before(info)
    read = (state_before, info.repo_before_updates)
    for name in dict.fromkeys(names):
        if not is_object_name(name):
            # Nothing can have this name: not even whether it is there can be asked.
            report.add(Problem(rules.BACKUP_UNREADABLE, REPO_PATH, _no_name(name)))
            continue
        path = backup_object(name)
        size = sizes.get(path)
        if path not in sizes:
            report.add(Problem(rules.BACKUP_MISSING, path, "the ops log in repo names it"))
            report.missing.append(path)
        elif name not in read and size is not None and size <= HEADER_SIZE:
            # Most are too many to be read; a write that broke off shows in the listing.
            detail = f"its {size} bytes are too few for a header and content"
            report.add(Problem(rules.BACKUP_UNREADABLE, path, detail))
    before = None if state_before is None else _read_backup(storage, state_before, report)
    if before is not None:
        report.extend(check_step(before, info))
    _check_chain(storage, info, report)


def _name_of_state_before(info: RepoInfo) -> str | None:
    return info.latest_updates[1].backup_path if len(info.latest_updates) > 1 else None


def _no_name(name: str) -> str:
    return f"its ops log names a copy {name!r}, which cannot be"


def _read_backup(storage: Storage, name: str, report: Report) -> RepoInfo | None:
    if not is_object_name(name):
        report.add(Problem(rules.BACKUP_UNREADABLE, REPO_PATH, _no_name(name)))
        return None
    path = backup_object(name)
    try:
        return read_repo(storage, path)
    except UNREADABLE as error:
        report.add(unreadable(rules.BACKUP_UNREADABLE, path, error))
    except ObjectNotFoundError:
        pass  # told by the listing, or by the one who follows the chain
    return None


def _check_chain(storage: Storage, info: RepoInfo, report: Report) -> None:
    """The copies that hold older entries: each there, readable and older than the last."""
    oldest = info.latest_updates[-1].updated_at if info.latest_updates else None
    visited: set[str] = set()
    name = info.repo_before_updates
    while name is not None:
        path = backup_object(name)
        if name in visited:
            problem = Problem(rules.BACKUP_UNREADABLE, path, "the chain of copies comes back to it")
            report.add(problem)
            return
        visited.add(name)
        state = _read_backup(storage, name, report)
        if state is None:
            is_there = not is_object_name(name) or _exists(storage, path)
            if name != info.repo_before_updates and not is_there:
                report.add(Problem(rules.BACKUP_MISSING, path, "the ops log goes on there"))
                report.missing.append(path)
            return
        updates = state.latest_updates
        report.extend(check_ops_log_order(updates, path))
        if not updates or (oldest is not None and updates[0].updated_at >= oldest):
            detail = "its ops log is not older than what follows"
            report.add(Problem(rules.OPS_LOG_ORDER, path, detail))
            return
        oldest, name = updates[-1].updated_at, state.repo_before_updates


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
    """Without it the defaults hold; with a damaged one nobody opens the repository."""
    try:
        decode_config_yaml(storage.read(CONFIG_PATH))
    except ObjectNotFoundError:
        pass
    except UNREADABLE as error:
        report.add(unreadable(rules.REPO_VALUE, CONFIG_PATH, error))


def _read_ref_files(storage: Storage) -> tuple[Repository | None, list[Problem]]:
    names = read_ref_names(storage, STANDARD)
    if not names.branches and not names.tags:
        # An early layout, or no repository at all, which is not a finding.
        return open_repository(storage), []
    problems = [Problem(rules.REF_FOREIGN, path, "it is no ref") for path in names.unknown]
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
    if DEFAULT_BRANCH not in names.branches:
        detail = "the branches are others" if names.branches else "there are only tags"
        problems.append(Problem(rules.MAIN_MISSING, STANDARD.refs, detail))
    try:
        return open_repository(storage), problems
    except (*UNREADABLE, RepositoryNotFoundError):
        branches = {n: targets[path] for n, path in names.branches.items() if path in targets}
        tags = {n: targets[path] for n, path in names.tags.items() if path in targets}
        return _without_refs(storage, branches, tags), problems


def _without_refs(
    storage: Storage, branches: dict[str, SnapshotId], tags: dict[str, SnapshotId]
) -> Repository | None:
    """The repository of spec version 1 by the refs that can be read."""
    if not branches and not tags:
        return None
    return Repository(storage, Generation.V1, STANDARD, 1, None, branches, tags, ())


def check_ancestry(repository: Repository, history: History) -> Iterator[Problem]:
    """Cycles in the parents that snapshot files name; those of the repo file are found there."""
    if repository.info is not None:
        return
    for cycle in history.cycles():
        path = repository.layout.snapshot(cycle[-1])
        detail = f"its parent {cycle[0]} descends from it"
        yield Problem(rules.ANCESTRY_LOOP, path, detail)
