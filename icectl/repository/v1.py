"""Changing a repository of spec version 1: refs and configuration are files of their own.

A branch is swapped by a conditional put of its file. Deleting one cannot be conditional on
object stores, so that a commit in the same moment can lose its branch; version 2 has no such
gap. A tag's file is never removed: an empty tombstone beside it deletes the tag.
"""

from __future__ import annotations

from collections.abc import Callable

from icectl.errors import (
    ConflictError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefNotFoundError,
)
from icectl.format.refs import encode_ref
from icectl.model.ids import SnapshotId
from icectl.repository.backups import backup_name
from icectl.repository.clock import local_time, write_time
from icectl.repository.edits import (
    check_deletable,
    check_expected,
    deleted_tag_error,
    existing_ref_error,
)
from icectl.repository.layout import CONFIG_PATH, STANDARD
from icectl.repository.names import check_new_name, nearest_hint
from icectl.repository.ops_log import backup_object
from icectl.repository.ref_files import (
    TOMBSTONE,
    branch_file,
    decode_ref_file,
    read_ref_names,
    tag_file,
)
from icectl.storage.contract import Storage, VersionedBytes

MAX_ATTEMPTS = 50


def create_branch(storage: Storage, name: str, snapshot_id: SnapshotId) -> None:
    check_new_name(name, "branch", 1)
    _check_snapshot(storage, snapshot_id)
    _create(storage, branch_file(name), snapshot_id, "branch", name)


def reset_branch(
    storage: Storage, name: str, snapshot_id: SnapshotId, expect: SnapshotId | None = None
) -> SnapshotId:
    """Move the branch; the snapshot it pointed at before."""
    path = _find_branch(storage, name)
    _check_snapshot(storage, snapshot_id)
    storage.ensure_conditional_writes()
    for _ in range(MAX_ATTEMPTS):
        found, previous = _read_branch(storage, path, name)
        check_expected(name, previous, expect)
        if previous == snapshot_id:
            return previous
        try:
            storage.put_if_match(path, encode_ref(snapshot_id), found.version)
        except PreconditionFailedError:
            continue
        return previous
    raise ConflictError(f"the branch {name} was moved by others {MAX_ATTEMPTS} times in a row")


def delete_branch(storage: Storage, name: str, expect: SnapshotId | None = None) -> SnapshotId:
    check_deletable(name)
    path = _find_branch(storage, name)
    _, previous = _read_branch(storage, path, name)
    check_expected(name, previous, expect)
    for _, error in storage.delete_many([path]):
        if error is not None:
            raise error
    return previous


def create_tag(storage: Storage, name: str, snapshot_id: SnapshotId) -> None:
    check_new_name(name, "tag", 1)
    if name in read_ref_names(storage, STANDARD).deleted_tags:
        raise deleted_tag_error(name)
    _check_snapshot(storage, snapshot_id)
    _create(storage, tag_file(name), snapshot_id, "tag", name)


def delete_tag(storage: Storage, name: str) -> SnapshotId:
    names = read_ref_names(storage, STANDARD)
    path = names.tags.get(name)
    if path is None:
        raise RefNotFoundError(f"there is no tag {name}", hint=nearest_hint(name, names.tags))
    previous = decode_ref_file(storage.read(path), path)
    storage.ensure_conditional_writes()
    try:
        storage.put_if_absent(path.rpartition("/")[0] + "/" + TOMBSTONE, b"")
    except PreconditionFailedError:
        raise RefNotFoundError(f"there is no tag {name}: it was deleted just now") from None
    return previous


def update_config(storage: Storage, change: Callable[[bytes | None], bytes]) -> None:
    """Apply `change` to the text of the configuration file, keeping a copy of the old one."""
    storage.ensure_conditional_writes()
    for _ in range(MAX_ATTEMPTS):
        try:
            found: VersionedBytes | None = storage.read_versioned(CONFIG_PATH)
        except ObjectNotFoundError:
            found = None
        local = local_time()
        data = change(found.data if found else None)
        try:
            if found is None:
                storage.put_if_absent(CONFIG_PATH, data)
            elif data != found.data:
                now = write_time(found.read_at, local)
                backup = backup_object(backup_name(now, CONFIG_PATH))
                storage.put_if_absent(backup, found.data)
                storage.put_if_match(CONFIG_PATH, data, found.version)
        except PreconditionFailedError:
            continue
        return
    raise ConflictError(f"the configuration was changed by others {MAX_ATTEMPTS} times in a row")


def _create(storage: Storage, path: str, snapshot_id: SnapshotId, kind: str, name: str) -> None:
    storage.ensure_conditional_writes()
    try:
        storage.put_if_absent(path, encode_ref(snapshot_id))
    except PreconditionFailedError:
        raise existing_ref_error(kind, name, None) from None


def _find_branch(storage: Storage, name: str) -> str:
    branches = read_ref_names(storage, STANDARD).branches
    if name not in branches:
        raise RefNotFoundError(f"there is no branch {name}", hint=nearest_hint(name, branches))
    return branches[name]


def _read_branch(storage: Storage, path: str, name: str) -> tuple[VersionedBytes, SnapshotId]:
    try:
        found = storage.read_versioned(path)
    except ObjectNotFoundError:
        raise RefNotFoundError(f"there is no branch {name}: it was deleted just now") from None
    return found, decode_ref_file(found.data, path)


def _check_snapshot(storage: Storage, snapshot_id: SnapshotId) -> None:
    try:
        storage.info(STANDARD.snapshot(snapshot_id))
    except ObjectNotFoundError:
        raise RefNotFoundError(f"the repository has no snapshot {snapshot_id}") from None
