"""Upgrade a repository of spec version 1 to version 2, in place.

Version 1 keeps refs and configuration in files, version 2 in `repo`. The order of the writes makes
it safe to stop anywhere and to start again:

1. Copy the old files to `upgrade-backup/`.
2. Create `repo`. From here on, clients of version 2 see the upgraded repository.
3. Close the branches, main first: a conditional put replaces the content of each file, so that no
   client of version 1 can commit any more. If one did since step 1, a new plan starts over.
4. Delete the old files: main first, the configuration last.

While main's file exists and `repo` has seen no other operation, a new plan may replace `repo`.
Later, the old files are only deleted if `repo` has everything that they say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from icectl.checks.listing import missing
from icectl.checks.problem import error_of, raise_first
from icectl.checks.repo import check_main, check_repo
from icectl.checks.snapshot import check_ancestry_v1, check_parent_v1
from icectl.errors import (
    ConflictError,
    FormatError,
    IcectlError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    Remedy,
    StorageError,
    UnsupportedError,
)
from icectl.format.config import decode_config_yaml
from icectl.format.envelope import Generation
from icectl.format.refs import RefNames, interpret_ref_names
from icectl.format.repo import encode_repo
from icectl.format.values import decode_metadata, encode_flexbuffers, encode_metadata
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    RepoInfo,
    RepoMigratedUpdate,
    SnapshotInfo,
    Update,
)
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.repository.backups import backup_name
from icectl.repository.clock import format_duration, is_ahead, read_write_time
from icectl.repository.config import decode_config
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.history import find_reachable, state_of, walk
from icectl.repository.layout import CONFIG_PATH, STANDARD
from icectl.repository.open import open_repository
from icectl.repository.ops_log import (
    REPO_PATH,
    OpsLogBeyondReach,
    backup_object,
    decode_repo_at,
    read_repo,
    walk_updates,
)
from icectl.repository.ref_files import branch_file, decode_ref_file, tag_file
from icectl.repository.repository import Repository
from icectl.repository.synthetic_log import migrated_state
from icectl.repository.update import put_back
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import Storage, VersionedBytes

BACKUP = "upgrade-backup"
"""The directory with copies of the old files; no client looks there."""
CLOSED = SnapshotId(b"version 2 \xff\xff")
"""Where the file of a closed branch points: no such snapshot exists, so every commit conflicts.

It must be a valid ref, because clients of version 2 read main's file, too, if it exists.
"""
MAX_ATTEMPTS = 20
WORKERS = 16
MIGRATED = RepoMigratedUpdate(1, 2)

T = TypeVar("T")
OldFiles = Mapping[str, bytes]
"""The refs and the configuration of version 1, by path."""


@dataclass(frozen=True, slots=True)
class DetachedSnapshot:
    """A snapshot file that no branch or tag leads to."""

    id: SnapshotId
    flushed_at: int | None
    message: str | None
    error: str | None
    """Why it cannot be kept: it is damaged, or a file that it needs is missing."""


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What a repository of spec version 2 has that was made from an older one."""

    dry_run: bool
    from_generation: str
    """The name of a `Generation`; "v2" if there is nothing to do."""
    to_spec_version: int
    location: str
    snapshots: int
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    deleted_tags: tuple[str, ...]
    unreachable_snapshots: tuple[SnapshotId, ...]
    """Those that no branch or tag of the older one leads to."""
    detached: tuple[DetachedSnapshot, ...]
    """The same ones, described."""


@dataclass(frozen=True, slots=True)
class UpgradeResult(Upgraded):
    resumed: bool
    """Whether an earlier upgrade had begun."""
    operations: int
    """Entries of the new ops log."""
    kept_detached: bool
    old_files: int
    """Files of spec version 1 to delete."""
    backup: str | None
    """The directory with their copies."""


@dataclass(frozen=True)
class UpgradePlan:
    storage: Storage
    files: OldFiles
    state: RepoInfo | None
    """The state to write; None if `repo` has it already, or needs none."""
    current: RepoInfo | None = None
    """The state in `repo`, if it exists."""
    written: VersionedBytes | None = None
    detached: tuple[DetachedSnapshot, ...] = ()
    keep_detached: bool = False

    @property
    def is_empty(self) -> bool:
        return self.state is None and not self.old_paths

    @cached_property
    def names(self) -> RefNames:
        return _ref_names(self.files)

    @cached_property
    def old_paths(self) -> list[str]:
        """The files to delete, in this order; what is not a file of version 1 stays."""
        known = self.files.keys() - {CONFIG_PATH, *self.names.unknown}
        main = branch_file(DEFAULT_BRANCH)
        refs = sorted(known, key=lambda path: (path != main, path))
        return [*refs, *({CONFIG_PATH} & self.files.keys())]

    def result(self, *, dry_run: bool) -> UpgradeResult:
        state = self.state or self.current
        assert state is not None
        return UpgradeResult(
            dry_run=dry_run,
            location=self.storage.location,
            from_generation=Generation.V2 if self.is_empty else Generation.V1,
            to_spec_version=2,
            branches=tuple(ref.name for ref in state.branches),
            tags=tuple(ref.name for ref in state.tags),
            deleted_tags=state.deleted_tags,
            snapshots=len(state.snapshots),
            operations=len(state.latest_updates) + (self.state is not None),
            unreachable_snapshots=tuple(snapshot.id for snapshot in self.detached),
            detached=self.detached,
            kept_detached=self.keep_detached,
            resumed=self.current is not None and not self.is_empty,
            old_files=len(self.old_paths),
            backup=f"{BACKUP}/" if self.old_paths else None,
        )


def plan_upgrade(
    repository: Repository, progress: Progress, *, keep_detached: bool = False
) -> UpgradePlan:
    """Read refs and snapshots; `FormatError` for damage, before anything is written."""
    storage = repository.storage
    if repository.generation not in (Generation.V1, Generation.V2):
        raise UnsupportedError(
            f"repositories of the generation {repository.generation} cannot be upgraded in place",
            hint=Remedy("upgrade-to-target"),
        )
    files = read_old_files(storage)
    if repository.info is None:
        return _plan_state(repository, files, keep_detached, progress)
    found = storage.read_versioned(REPO_PATH)
    current = decode_repo_at(found.data, REPO_PATH)
    finished = UpgradePlan(storage, files, None, current, keep_detached=keep_detached)
    migrated = None if finished.is_empty else _read_migrated(storage, current)
    if migrated is None:
        # A repository that was created with version 2, and files that are not ours to judge.
        return replace(finished, files={})
    if branch_file(DEFAULT_BRANCH) in files and current.latest_updates[0].update_type == MIGRATED:
        plan = _plan_state(repository, files, keep_detached, progress)
        assert plan.state is not None
        if replace(current, latest_updates=current.latest_updates[1:]) == plan.state:
            return replace(plan, state=None, current=current)
        return replace(plan, current=current, written=found)
    _check_covered(finished, migrated)
    return finished


def read_old_files(storage: Storage) -> OldFiles:
    paths = [listed.path for listed in storage.list(STANDARD.refs, with_info=False)]
    files = {}
    for path, data in storage.read_many([*paths, CONFIG_PATH]):
        if isinstance(data, ObjectNotFoundError):
            continue  # deleted since it was listed, or never there
        if isinstance(data, StorageError):
            raise data
        files[path] = data
    return files


def _ref_names(files: OldFiles) -> RefNames:
    return interpret_ref_names(path for path in files if path != CONFIG_PATH)


def _read_targets(
    files: OldFiles, names: RefNames
) -> tuple[dict[str, SnapshotId], dict[str, SnapshotId], dict[str, SnapshotId]]:
    """The branches, tags and deleted tags."""
    branches = {name: _read_target(files, path) for name, path in names.branches.items()}
    tags = {name: _read_target(files, path) for name, path in names.tags.items()}
    deleted = {}
    for name in names.deleted_tags:
        path = tag_file(name)
        with suppress(FormatError):  # nobody needs it any more
            if path in files:
                deleted[name] = _read_target(files, path)
    return branches, tags, deleted


def _read_target(files: OldFiles, path: str) -> SnapshotId:
    return decode_ref_file(_opened(files[path]), path)


def _closed(data: bytes) -> bytes:
    """The content of a branch that is closed; it still says where the branch pointed."""
    if _opened(data) != data:
        return data
    return json.dumps({"snapshot": str(CLOSED), "closed_at": data.decode()}).encode()


def _opened(data: bytes) -> bytes:
    """The content of a ref file before it was closed."""
    if str(CLOSED).encode() in data:
        with suppress(ValueError, TypeError, KeyError, AttributeError):  # any other file
            before: bytes = json.loads(data)["closed_at"].encode()
            return before
    return data


def _plan_state(
    repository: Repository,
    files: OldFiles,
    keep_detached: bool,
    progress: Progress,
) -> UpgradePlan:
    """The plan for a state that is not written yet, or that nobody has used."""
    names = _ref_names(files)
    for name, path in names.branches.items():
        if path != branch_file(name):
            raise UnsupportedError(f"{path} is a file of an older generation than spec version 1")
    branches, tags, deleted_tags = _read_targets(files, names)
    raise_first(
        check_main(branches, branch_file(DEFAULT_BRANCH)),
        hint=Remedy("create-branch", {"branch": DEFAULT_BRANCH}),
    )
    infos, unreadable = _read_snapshots(repository, progress)

    def parent_of(snapshot_id: SnapshotId) -> SnapshotId | None:
        if snapshot_id in unreadable:
            raise unreadable[snapshot_id]
        if snapshot_id not in infos:
            raise error_of(missing(STANDARD.snapshot(snapshot_id), "a branch or tag needs it"))
        return infos[snapshot_id].parent_id

    reachable = find_reachable((*branches.values(), *tags.values()), parent_of)
    raise_first(check_ancestry_v1({id_: infos[id_].parent_id for id_ in reachable}))
    *_, root = walk(branches[DEFAULT_BRANCH], parent_of)
    incomplete = _find_incomplete(repository, infos.keys() - reachable) if keep_detached else {}
    kept = {
        id_: info
        for id_, info in infos.items()
        if id_ in reachable or (keep_detached and id_ not in incomplete)
    }
    snapshots = tuple(
        # The parent of a detached snapshot may be deleted already.
        info if info.parent_id is None or info.parent_id in kept else replace(info, parent_id=root)
        for _, info in sorted(kept.items())
    )
    config = _encode_config(files)
    state = migrated_state(snapshots, branches, tags, deleted_tags, names.deleted_tags, config)
    detached = [
        DetachedSnapshot(id_, info.flushed_at, info.message, incomplete.get(id_))
        for id_, info in infos.items()
        if id_ not in reachable
    ]
    detached.sort(key=lambda one: (-(one.flushed_at or 0), one.id))
    detached += (
        DetachedSnapshot(id_, None, None, error.message) for id_, error in unreadable.items()
    )
    return UpgradePlan(
        repository.storage, files, state, detached=tuple(detached), keep_detached=keep_detached
    )


def _read_snapshots(
    repository: Repository, progress: Progress
) -> tuple[dict[SnapshotId, SnapshotInfo], dict[SnapshotId, IcectlError]]:
    """Every snapshot file, and why some cannot be read."""
    storage, directory = repository.storage, STANDARD.snapshots
    paths: dict[str, SnapshotId] = {}
    for listed in storage.list(directory, with_info=False):
        try:
            paths[listed.path] = SnapshotId.parse(listed.path.removeprefix(f"{directory}/"))
        except ValueError:
            continue
    infos: dict[SnapshotId, SnapshotInfo] = {}
    unreadable: dict[SnapshotId, IcectlError] = {}
    reads = storage.read_many(paths)
    for path, data in progress.count(reads, "reading snapshots", len(paths)):
        id_ = paths[path]
        try:
            if isinstance(data, StorageError):
                raise data
            infos[id_] = _read_info(repository, id_, data)
        except ObjectNotFoundError:
            continue  # collected since it was listed
        except (FormatError, UnsupportedError) as error:
            unreadable[id_] = error
    return infos, unreadable


def _find_incomplete(repository: Repository, ids: Set[SnapshotId]) -> Mapping[SnapshotId, str]:
    """Which of these lost files to a garbage collection, and the first such file."""
    storage = repository.storage
    there = {
        one.path: one.size
        for kind in (ObjectKind.MANIFEST, ObjectKind.TRANSACTION_LOG)
        for one in (storage.list(kind.directory) if ids else ())
    }
    incomplete: dict[SnapshotId, str] = {}
    for snapshot in repository.read_snapshot_columns(ids) if ids else ():
        files = snapshot.all_manifest_files
        needed = {ObjectKind.MANIFEST.path(file.id): file.size_bytes for file in files}
        wrong = [path for path, size in needed.items() if there.get(path) != size]
        log = ObjectKind.TRANSACTION_LOG.path(snapshot.id)
        if snapshot.parent_id is not None and log not in there:
            wrong.append(log)
        if wrong:
            incomplete[snapshot.id] = f"{wrong[0]} is missing or has another size"
    return incomplete


def _read_info(repository: Repository, snapshot_id: SnapshotId, data: bytes) -> SnapshotInfo:
    snapshot = repository.decode_snapshot(snapshot_id, data)
    raise_first(check_parent_v1(snapshot))
    try:
        metadata = decode_metadata(snapshot.metadata, snapshot.spec_version)
        return SnapshotInfo(
            snapshot_id,
            snapshot.parent_id,
            snapshot.flushed_at,
            snapshot.message,
            encode_metadata(metadata, 2),
        )
    except FormatError as error:
        raise error.at(STANDARD.snapshot(snapshot_id)) from None


def _decode_old_config(files: OldFiles) -> dict[str, object]:
    try:
        return decode_config_yaml(files[CONFIG_PATH])
    except FormatError as error:
        raise error.at(CONFIG_PATH) from None


def _encode_config(files: OldFiles) -> bytes | None:
    return encode_flexbuffers(_decode_old_config(files)) if CONFIG_PATH in files else None


def _read_migrated(storage: Storage, current: RepoInfo) -> RepoInfo | None:
    """The state that an upgrade wrote; `current` if its copy is gone, None without an upgrade."""
    for number, update in enumerate(walk_updates(storage, current)):
        if isinstance(update, OpsLogBeyondReach):
            return None
        if update.update_type != MIGRATED:
            continue
        if number == 0 or update.backup_path is None:
            return current
        try:
            return read_repo(storage, backup_object(update.backup_path))
        except ObjectNotFoundError:
            return current
    return None


def _check_covered(plan: UpgradePlan, migrated: RepoInfo) -> None:
    """`ConflictError` if an old file says something that never came into `repo`."""
    assert plan.current is not None
    files, names = plan.files, plan.names
    branches, tags, _ = _read_targets(files, names)
    past, now = state_of(migrated), state_of(plan.current)
    for kind, targets, before, after in (
        ("branch", branches, past.branches, now.branches),
        ("tag", tags, past.tags, now.tags),
    ):
        for name, target in targets.items():
            is_known = before.get(name) == target or (
                name in after and target in walk(after[name], now.parents.get)
            )
            if not is_known:
                path = branch_file(name) if kind == "branch" else tag_file(name)
                raise ConflictError(
                    f"{path}: a client of spec version 1 moved the {kind} {name} to {target} "
                    "after the upgrade had begun, and the repository has changed since",
                    hint=Remedy("keep-late-commit", {"snapshot": str(target), "object": path}),
                )
    lost_tags = names.deleted_tags - {*past.deleted_tags, *now.deleted_tags}
    config = _decode_old_config(files) if CONFIG_PATH in files else None
    if lost_tags or config not in (None, decode_config(migrated.config)):
        what = (
            f"the tag {min(lost_tags)} was deleted" if lost_tags else f"{CONFIG_PATH} was changed"
        )
        raise ConflictError(
            f"{what} by a client of spec version 1 after the upgrade had begun, and the "
            "repository has changed since",
            hint="repeat the change in the upgraded repository, then delete the file",
        )


def execute_upgrade(storage: Storage, plan: UpgradePlan, progress: Progress) -> UpgradeResult:
    """Execute the plan, or a new one if others changed the repository meanwhile."""
    result = plan.result(dry_run=False)
    storage.ensure_conditional_creates()
    for _ in range(MAX_ATTEMPTS):
        if plan.is_empty:
            return result
        result = replace(plan.result(dry_run=False), resumed=result.resumed)
        if _write_state(storage, plan) and _close_branches(storage, plan):
            _delete_old_files(storage, plan)
        # Others may have changed something, and what remains needs a new plan then.
        plan = plan_upgrade(open_repository(storage), progress, keep_detached=plan.keep_detached)
    raise ConflictError(
        f"the repository was changed by others {MAX_ATTEMPTS} times in a row",
        hint="stop the writers, then run it again",
    )


def _write_state(storage: Storage, plan: UpgradePlan) -> bool:
    """Copy the old files and write `repo`; False if another writer was faster."""
    _copy_aside(storage, plan.files)
    if plan.state is None:
        return True
    now = read_write_time(storage)
    newest = plan.state.latest_updates[0].updated_at
    if is_ahead(newest, now):
        raise RefusedError(
            f"the newest snapshot was committed {format_duration(newest - now)} in the future, so "
            "official clients could not commit to the upgraded repository until then",
            hint="nothing was changed; upgrade it after that time",
        )
    migration = Update(MIGRATED, max(now, newest + 1))
    state = replace(plan.state, latest_updates=(migration, *plan.state.latest_updates))
    data = encode_repo(state)
    raise_first(one for one in check_repo(data)[1] if one.rule.severity == "error")
    try:
        put_back(storage, data, plan.written, f"{BACKUP}/{backup_name(now)}")
    except ConflictError:
        return False
    written = {(one.update_type, one.updated_at) for one in read_repo(storage).latest_updates}
    return (MIGRATED, migration.updated_at) in written


def _copy_aside(storage: Storage, files: OldFiles) -> None:
    def copy(path: str) -> None:
        place, data = f"{BACKUP}/{path}", _opened(files[path])
        try:
            storage.put_if_absent(place, data)
        except PreconditionFailedError:
            found = storage.read_versioned(place)
            if found.data != data:
                storage.put_if_match(place, data, found.version)

    _on_threads(copy, files)


def _close_branches(storage: Storage, plan: UpgradePlan) -> bool:
    """Keep clients of version 1 from committing; False if one has changed something before."""

    def close(path: str) -> bool:
        for _ in range(MAX_ATTEMPTS):
            try:
                found = storage.read_versioned(path)
                if (closed := _closed(found.data)) != found.data:
                    storage.put_if_match(path, closed, found.version)
                return True
            except PreconditionFailedError:
                continue  # a commit was faster
            except ObjectNotFoundError:
                break
        return False

    main = branch_file(DEFAULT_BRANCH)
    paths = [*plan.names.branches.values()]
    is_closed = main not in paths or close(main)
    return is_closed and all(_on_threads(close, [path for path in paths if path != main]))


def _delete_old_files(storage: Storage, plan: UpgradePlan) -> None:
    """Main first and the configuration last; stop if a client of version 1 changed something."""
    files = dict(plan.files)
    for path in plan.names.branches.values():
        files[path] = _closed(files[path])
    *refs, last = plan.old_paths
    for batch in (refs[:1], refs[1:], [last]):
        if batch and read_old_files(storage) != files:
            return
        for path, error in storage.delete_many(batch):
            if error is not None:
                raise error
            del files[path]


def _on_threads(function: Callable[[str], T], items: Iterable[str]) -> list[T]:
    return [*map_on_threads(function, items, workers=WORKERS, ahead=2 * WORKERS)]
