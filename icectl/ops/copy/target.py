"""The target of a copy: what it has, what it would lose, and the write that publishes the copy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from icectl.errors import (
    ConflictError,
    FormatError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    Remedy,
    RepositoryNotFoundError,
    UsageError,
)
from icectl.format.config import encode_config_yaml
from icectl.format.refs import encode_ref
from icectl.format.repo import encode_repo
from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.model.repo import (
    BranchCreatedUpdate,
    BranchDeletedUpdate,
    BranchResetUpdate,
    CommitAmendedUpdate,
    ExpirationRanUpdate,
    NewCommitUpdate,
    NewDetachedSnapshotUpdate,
    RepoInfo,
    TagCreatedUpdate,
    TagDeletedUpdate,
    Update,
    UpdateType,
    ids_of,
    infos_by_id,
    pruned_logs_of,
    times_of,
)
from icectl.ops.copy.paths import derived_id
from icectl.ops.copy.state import STORAGE_SETTINGS, Selection
from icectl.repository.config import read_config
from icectl.repository.config_changes import update_config_file
from icectl.repository.edits import DEFAULT_BRANCH, Edited
from icectl.repository.history import state_of
from icectl.repository.initialize import check_apart
from icectl.repository.layout import STANDARD
from icectl.repository.open import open_repository, repository_at
from icectl.repository.ops_log import BACKUPS, REPO_PATH, walk_updates
from icectl.repository.ref_files import (
    REF_FILE,
    TOMBSTONE,
    RefFiles,
    branch_file,
    tag_file,
)
from icectl.repository.repository import Repository
from icectl.repository.state_changes import keep_encodings, updates_of
from icectl.repository.update import update_repo
from icectl.storage.contract import Storage

ATTEMPTS = 5
_DIRECTORIES = {
    *(STANDARD.refs, STANDARD.snapshots, STANDARD.manifests, STANDARD.chunks),
    *(STANDARD.transactions, STANDARD.attributes),
}


def open_target(storage: Storage, source: Storage) -> Repository | None:
    """The repository at the target; None if there is none, or an unfinished copy."""
    check_apart(storage, source)
    if storage.is_bucket_root:
        raise UsageError(
            f"{storage.location} is the root of a bucket, where official clients open no "
            "repository",
            hint="add a prefix",
        )
    try:
        return open_repository(storage, ignore_cut_uploads=True)
    except RepositoryNotFoundError:
        pass
    except FormatError as error:
        raise _damaged(storage, error) from None
    for name in storage.list_directories(""):
        if name == BACKUPS:
            raise RefusedError(
                f"{storage.location} has a repository that lost its {REPO_PATH} file",
                hint=Remedy("repair-target", {"location": storage.location}),
            )
        if name not in _DIRECTORIES:
            raise RefusedError(
                f"{storage.location} is not empty: it has {name}/",
                hint="copy to a place of its own",
            )
    return None


def _damaged(target: Storage, error: FormatError) -> FormatError:
    return FormatError(
        f"the target {target.location} is damaged: {error}",
        hint=Remedy("repair-target", {"location": target.location}),
    )


def check_target_online(target: Repository) -> None:
    """`RefusedError` if the target is closed for changes, before anything is copied to it."""
    location = target.storage.location
    try:
        target.check_online()
    except RefusedError as error:
        raise RefusedError(
            f"the target {location} cannot be changed: {error.message}",
            hint=Remedy("open-target", {"location": location}),
        ) from None


def check_same_repository(source: Repository, target: Repository) -> None:
    """`RefusedError` if the target never was a copy of the source, not even with `--force`."""
    problem = None
    if source.generation != target.generation:
        problem = f"a repository of spec version {target.spec_version}"
    elif source.info is not None and target.info is not None:
        ours, theirs = times_of(source.info.snapshots), times_of(target.info.snapshots)
        # The first snapshot has the same id in every repository.
        if any(theirs[id_] != ours[id_] for id_ in ours.keys() & theirs.keys()):
            problem = "another repository"
    elif None not in (times := {_first_time(source), _first_time(target)}) and len(times) > 1:
        problem = "another repository"
    if problem is not None:
        raise RefusedError(
            f"{target.storage.location} has {problem}, which is never overwritten",
            hint="copy to another place",
        )


def _first_time(repository: Repository) -> int | None:
    """When a repository of spec version 1 was created; None if it is unknown."""
    try:
        return repository.snapshot_info(INITIAL_SNAPSHOT_ID).flushed_at
    except ObjectNotFoundError:  # the first snapshot of old ones has another name
        return None


def find_lost(source: Repository, selection: Selection, target: Repository) -> list[str]:
    """What the target has and the source never had: its writers would lose it."""
    known = _Known(source, selection.paths)
    lost: list[str] = []
    for kind, has, refs, known_name in (
        ("branch", selection.has_branch, target.branches(), known.has_branch),
        ("tag", selection.has_tag, target.tags(), known.has_tag),
    ):
        for name, tip in sorted(refs.items()):
            is_main = (kind, name) == ("branch", DEFAULT_BRANCH)
            if has(name) and not is_main and not known_name(name, tip):
                lost.append(f"{kind} {name}")
    if target.info is not None:
        lost += [
            f"deletion of tag {name}"
            for name in target.deleted_tags()
            if name in source.tags() and selection.has_tag(name) and not known.has_deleted_tag(name)
        ]
    # Without an ops log it is unknown what the source released; its tips are not released alone.
    held = ids_of(target.info.snapshots) if target.info else target.branches().values()
    lost += [f"snapshot {id_}" for id_ in held if not known.has_snapshot(id_)]
    return lost


class _Known:
    """What the source has, or had by its ops log, which is read only if it is needed."""

    def __init__(self, source: Repository, paths: Collection[str]) -> None:
        self._source = source
        self._paths = paths
        self._snapshots = {one.id for one in source.all_snapshots()}
        if source.info is not None:
            for logs in pruned_logs_of(source.info.snapshots).values():
                self._snapshots.update(logs)
        self._past: tuple[set[str], set[str], set[SnapshotId]] | None = None
        self._deleted_tags: set[str] = set()
        self._has_expired = False

    def _read_past(self) -> tuple[set[str], set[str], set[SnapshotId]]:
        if self._past is None:
            branches: set[str] = set()
            tags: set[str] = set()
            snapshots: set[SnapshotId] = set()
            for update in _updates(self._source):
                match update.update_type:
                    case BranchCreatedUpdate(name):
                        branches.add(name)
                    case BranchDeletedUpdate(name, previous) | BranchResetUpdate(name, previous):
                        branches.add(name)
                        snapshots.add(previous)
                    case NewCommitUpdate(name, new):
                        branches.add(name)
                        snapshots.add(new)
                    case CommitAmendedUpdate(name, previous, new):
                        branches.add(name)
                        snapshots |= {previous, new}
                    case TagCreatedUpdate(name):
                        tags.add(name)
                    case TagDeletedUpdate(name, previous):
                        tags.add(name)
                        self._deleted_tags.add(name)
                        snapshots.add(previous)
                    case ExpirationRanUpdate():
                        self._has_expired = True
                    case NewDetachedSnapshotUpdate(new):
                        snapshots.add(new)
                    case _:
                        pass
            self._past = branches, tags, snapshots
        return self._past

    def has_snapshot(self, snapshot_id: SnapshotId) -> bool:
        if snapshot_id in self._snapshots or snapshot_id in self._derived(self._snapshots):
            return True
        past = self._read_past()[2]
        if snapshot_id in past or snapshot_id in self._derived(past):
            return True
        return self._source.info is None and (
            self._has_file(snapshot_id) or snapshot_id in self._derived_of_files
        )

    @cached_property
    def _derived_of_files(self) -> Collection[SnapshotId]:
        return self._derived(self._source.find_snapshots("")) if self._paths else ()

    def _derived(self, originals: Collection[SnapshotId]) -> Collection[SnapshotId]:
        """What a copy of some paths makes of the snapshots."""
        return {derived_id(id_, self._paths) for id_ in originals} if self._paths else ()

    def _has_file(self, snapshot_id: SnapshotId) -> bool:
        try:
            self._source.storage.info(self._source.layout.snapshot(snapshot_id))
        except ObjectNotFoundError:
            return False
        return True

    def has_branch(self, name: str, tip: SnapshotId) -> bool:
        if self._source.info is None:  # without an ops log; no version is lost
            return self.has_snapshot(tip)
        return name in self._source.branches() or name in self._read_past()[0]

    def has_tag(self, name: str, tip: SnapshotId) -> bool:
        here = self._source.tags().get(name)
        if here is not None:
            return tip == here or tip in self._derived([here])
        return name in self._source.deleted_tags() or name in self._read_past()[1]

    def has_deleted_tag(self, name: str) -> bool:
        """Whether the source may have deleted a tag that it has again after an undo."""
        self._read_past()
        return name in self._deleted_tags or self._has_expired


def _updates(source: Repository) -> Iterator[Update]:
    if source.info is not None:
        for update in walk_updates(source.storage, source.info):
            if isinstance(update, Update):
                yield update


def merge(state: RepoInfo, before: RepoInfo, selection: Selection) -> RepoInfo:
    """`before` moved to `state`; refs that are not selected stay, with their history."""
    branches = {ref.name: ref for ref in before.branches if not selection.has_branch(ref.name)}
    tags = {ref.name: ref for ref in before.tags if not selection.has_tag(ref.name)}
    staying = replace(before, branches=(*branches.values(),), tags=(*tags.values(),))
    reachable = state_of(staying).reachable
    known = infos_by_id(state.snapshots)
    # Where the state was cut, by a shallow copy or an expiration, the history of before stays.
    kept = {
        one.id: one
        for one in before.snapshots
        if one.id in reachable
        and (one.id not in known or (one.parent_id is not None and one.parent_id not in known))
    }
    snapshots = {**known, **kept}
    # If main is not selected, that of the target stays.
    branches = {ref.name: ref for ref in state.branches} | branches
    tags = {ref.name: ref for ref in state.tags} | tags
    deleted = {*state.deleted_tags, *before.deleted_tags} - tags.keys()
    return replace(
        keep_encodings(before, state),
        branches=tuple(branches[name] for name in sorted(branches, key=str.encode)),
        tags=tuple(tags[name] for name in sorted(tags, key=str.encode)),
        deleted_tags=tuple(sorted(deleted, key=str.encode)),
        snapshots=tuple(snapshots[id_] for id_ in sorted(snapshots)),
        status=before.status,
        latest_updates=before.latest_updates,
        repo_before_updates=before.repo_before_updates,
    )


def is_up_to_date(state: Repository, target: Repository, selection: Selection) -> bool:
    if state.info is None or target.info is None:
        return _plan_ref_files(state, target, selection).is_empty and _has_history(target, state)
    return not _entries(target.info, merge(state.info, target.info, selection))


def _has_history(target: Repository, state: Repository) -> bool:
    """Whether each snapshot has the same parent, which an expiration or a cut changes in V1."""
    try:
        parents = {one.id: one.parent_id for one in target.all_snapshots()}
    except (FormatError, ObjectNotFoundError):  # the copy mends it
        return False
    return all(
        one.id in parents and parents[one.id] == one.parent_id for one in state.all_snapshots()
    )


def _entries(before: RepoInfo, after: RepoInfo) -> tuple[UpdateType, ...]:
    """The entries of the ops log for the write; none if there is nothing to do."""
    entries = updates_of(before, after)
    deleted = {entry.name for entry in entries if isinstance(entry, TagDeletedUpdate)}
    if {*after.deleted_tags} - {*before.deleted_tags} - deleted:
        # The only kind that deletes tags without an entry for each.
        entries = (*entries, ExpirationRanUpdate())
    return entries


def publish(
    source: Repository,
    state: Repository,
    storage: Storage,
    target: Repository | None,
    selection: Selection,
    known: Collection[SnapshotId],
    lost: list[str],
    *,
    force: bool,
) -> list[str]:
    """Make the copied objects a repository, by one conditional write (in spec version 2).

    Returns what that lost: `lost`, unless others changed the target meanwhile. `ConflictError` if
    the target no longer has all of the `known` snapshots, whose objects were not copied.
    """
    storage.sync()
    if state.info is None:
        _publish_v1(state, storage, target, selection)
        return lost
    if target is None:
        storage.ensure_conditional_writes()
        storage.ensure_conditional_creates()
        _replace(storage, REPO_PATH, None, encode_repo(state.info))
        return lost
    info = state.info
    relied_on = {*known} & {*ids_of(info.snapshots)}

    def change(before: RepoInfo) -> Edited:
        nonlocal lost
        found = repository_at(storage, before)
        check_target_online(found)
        if relied_on - {*ids_of(before.snapshots)}:
            raise ConflictError(
                f"{storage.location} released snapshots meanwhile", hint=Remedy("copy-again")
            )
        lost = find_lost(source, selection, found)
        if not force:
            check_lost(lost, storage)
        after = merge(info, before, selection)
        entries = _entries(before, after)
        return (after, entries) if entries else (before, ())

    try:
        # The status is checked here, for a hint that names the target.
        update_repo(storage, change, whatever_status=True)
    except FormatError as error:
        raise _damaged(storage, error) from None
    return lost


def check_lost(lost: list[str], storage: Storage) -> None:
    if lost:
        more = f" and {len(lost) - 5:,} more" if len(lost) > 5 else ""
        raise RefusedError(
            f"{storage.location} was changed by others: the copy would lose "
            f"{', '.join(lost[:5])}{more}",
            hint=Remedy("force-copy"),
        )


@dataclass(frozen=True, slots=True)
class _RefFileChanges:
    """The writes of spec version 1, which has a file for each ref."""

    config: bytes | None
    """None if it stays as it is."""
    written: Mapping[str, bytes]
    deleted_branches: Mapping[str, SnapshotId]

    @property
    def is_empty(self) -> bool:
        return self.config is None and not self.written and not self.deleted_branches


def _plan_ref_files(
    state: Repository, target: Repository | None, selection: Selection
) -> _RefFileChanges:
    there = {} if target is None else _ref_files(target)
    stored = read_config(state)
    stored.pop(STORAGE_SETTINGS, None)
    is_same = stored == ({} if target is None else read_config(target))
    branches = {} if target is None else target.branches()
    kept = {
        branch_file(name)
        for name in branches
        if name == DEFAULT_BRANCH and not selection.has_branch(name)
    }
    if target is not None:
        # A deletion is final in spec version 1.
        kept |= {tag_file(name) for name in target.deleted_tags()}
        kept |= {_tombstone(name) for name in target.tags() if not selection.has_tag(name)}
    # Without --force, the source has deleted these tags.
    deleted_tags = set() if target is None else target.tags().keys() - state.tags().keys()
    wanted = _ref_files(state) | {_tombstone(name): b"" for name in deleted_tags}
    return _RefFileChanges(
        None if is_same else encode_config_yaml(stored),
        {
            path: data
            for path, data in wanted.items()
            if there.get(path) != data and path not in kept
        },
        {
            name: tip
            for name, tip in branches.items()
            if selection.has_branch(name) and name not in state.branches()
        },
    )


def _ref_files(repository: Repository) -> dict[str, bytes]:
    """The content of each ref file, and of the tombstones of deleted tags."""
    files = {tag_file(name): encode_ref(id_) for name, id_ in repository.tags().items()}
    files |= {branch_file(name): encode_ref(id_) for name, id_ in repository.branches().items()}
    for name in repository.deleted_tags():
        files[_tombstone(name)] = b""
    return files


def _tombstone(tag: str) -> str:
    return tag_file(tag).removesuffix(REF_FILE) + TOMBSTONE


def _publish_v1(
    state: Repository, storage: Storage, target: Repository | None, selection: Selection
) -> None:
    """Ref by ref, main last: without it, the target is not a repository."""
    storage.ensure_conditional_writes()
    storage.ensure_conditional_creates()
    changes = _plan_ref_files(state, target, selection)
    there = {} if target is None else _ref_files(target)
    if changes.config is not None:
        config = changes.config
        update_config_file(storage, lambda _: config)
    main = branch_file(DEFAULT_BRANCH)
    for path in sorted(changes.written, key=lambda path: path == main):
        _replace(storage, path, there.get(path), changes.written[path])
    for name, tip in changes.deleted_branches.items():
        RefFiles(storage).delete_branch(name, expect=tip)


def _replace(storage: Storage, path: str, before: bytes | None, after: bytes) -> None:
    """Write `repo` or a ref file; `ConflictError` if another writer changed it.

    A killed copy leaves tags in a place that is not a repository yet, and on some servers an empty
    file: what is there already is not a change by others. Its last request may even arrive now,
    so a lost race is looked at again.
    """
    with suppress(PreconditionFailedError):
        if before is None:
            storage.put_if_absent(path, after)
            return
    for _ in range(ATTEMPTS):
        with suppress(PreconditionFailedError, ObjectNotFoundError):
            found = storage.read_versioned(path)
            if found.data == after:
                return
            if found.data not in (before, b""):
                break
            storage.put_if_match(path, after, found.version)
            return
    raise ConflictError(f"{path} was changed by somebody else meanwhile", hint=Remedy("copy-again"))
