"""Branches and tags as files: every generation before V2. Only those of V1 are changed.

One listing shows which file holds each ref (`format.refs` knows the names), and those are read
at once. A branch is swapped by a conditional put of its file. Object stores cannot delete
conditionally, so a commit at the same moment can lose its branch; version 2 has no such gap. A
tag's file is never removed: an empty tombstone beside it deletes the tag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from icectl.errors import (
    ConflictError,
    FormatError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefNotFoundError,
    Remedy,
    StorageError,
)
from icectl.format.refs import RefNames, decode_ref, encode_ref, interpret_ref_names
from icectl.model.ids import SnapshotId
from icectl.repository.edits import (
    check_deletable,
    check_expected,
    deleted_tag_error,
    existing_ref_error,
)
from icectl.repository.layout import STANDARD, Layout
from icectl.repository.names import check_new_name, nearest_hint
from icectl.storage.contract import Storage, VersionedBytes

REF_FILE = "ref.json"
TOMBSTONE = "ref.json.deleted"
MAX_ATTEMPTS = 50


@dataclass(frozen=True, slots=True)
class Refs:
    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]


def branch_file(name: str) -> str:
    return f"{STANDARD.refs}/branch.{name}/{REF_FILE}"


def tag_file(name: str) -> str:
    return f"{STANDARD.refs}/tag.{name}/{REF_FILE}"


def read_ref_names(storage: Storage, layout: Layout) -> RefNames:
    return interpret_ref_names(info.path for info in storage.list(layout.refs, with_info=False))


def read_refs(storage: Storage, names: RefNames, *, ignore_empty: bool = False) -> Refs:
    """Read the refs; with `ignore_empty`, all but those whose file is empty."""
    targets: dict[str, SnapshotId] = {}
    for path, data in storage.read_many([*names.branches.values(), *names.tags.values()]):
        if isinstance(data, StorageError):
            raise data
        if data or not ignore_empty:
            targets[path] = decode_ref_file(data, path)
    return Refs(
        {name: targets[path] for name, path in names.branches.items() if path in targets},
        {name: targets[path] for name, path in names.tags.items() if path in targets},
    )


def decode_ref_file(data: bytes, path: str) -> SnapshotId:
    try:
        return decode_ref(data)
    except FormatError as error:
        # Nothing else records where the ref pointed: only its writer can mend it.
        error.hint = Remedy("rewrite-ref")
        raise error.at(path) from None


class RefFiles:
    """Refs of spec version 1, as a `RefStore`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def branch_object(self, name: str) -> str:
        return branch_file(name)

    def create_branch(self, name: str, snapshot_id: SnapshotId) -> None:
        check_new_name(name, "branch", 1)
        self._check_snapshot(snapshot_id)
        self._create(branch_file(name), snapshot_id, "branch", name)

    def reset_branch(
        self, name: str, snapshot_id: SnapshotId, expect: SnapshotId | None = None
    ) -> SnapshotId:
        path = self._find_branch(name)
        self._check_snapshot(snapshot_id)
        self._storage.ensure_conditional_writes()
        for _ in range(MAX_ATTEMPTS):
            found, previous = self._read_branch(path, name)
            check_expected(name, previous, expect)
            if previous == snapshot_id:
                return previous
            try:
                self._storage.put_if_match(path, encode_ref(snapshot_id), found.version)
            except PreconditionFailedError:
                continue
            return previous
        raise ConflictError(f"the branch {name} was moved by others {MAX_ATTEMPTS} times in a row")

    def delete_branch(self, name: str, expect: SnapshotId | None = None) -> SnapshotId:
        check_deletable(name)
        path = self._find_branch(name)
        _, previous = self._read_branch(path, name)
        check_expected(name, previous, expect)
        for _, error in self._storage.delete_many([path]):
            if error is not None:
                raise error
        return previous

    def create_tag(self, name: str, snapshot_id: SnapshotId) -> None:
        check_new_name(name, "tag", 1)
        if name in read_ref_names(self._storage, STANDARD).deleted_tags:
            raise deleted_tag_error(name)
        self._check_snapshot(snapshot_id)
        self._create(tag_file(name), snapshot_id, "tag", name)

    def delete_tag(self, name: str) -> SnapshotId:
        names = read_ref_names(self._storage, STANDARD)
        path = names.tags.get(name)
        if path is None:
            raise RefNotFoundError(f"there is no tag {name}", hint=nearest_hint(name, names.tags))
        previous = decode_ref_file(self._storage.read(path), path)
        self._storage.ensure_conditional_creates()
        try:
            self._storage.put_if_absent(path.rpartition("/")[0] + "/" + TOMBSTONE, b"")
        except PreconditionFailedError:
            raise RefNotFoundError(f"there is no tag {name}: it was deleted just now") from None
        return previous

    def _create(self, path: str, snapshot_id: SnapshotId, kind: str, name: str) -> None:
        self._storage.ensure_conditional_creates()
        try:
            self._storage.put_if_absent(path, encode_ref(snapshot_id))
        except PreconditionFailedError:
            raise existing_ref_error(kind, name, None) from None

    def _find_branch(self, name: str) -> str:
        branches = read_ref_names(self._storage, STANDARD).branches
        if name not in branches:
            raise RefNotFoundError(f"there is no branch {name}", hint=nearest_hint(name, branches))
        return branches[name]

    def _read_branch(self, path: str, name: str) -> tuple[VersionedBytes, SnapshotId]:
        try:
            found = self._storage.read_versioned(path)
        except ObjectNotFoundError:
            raise RefNotFoundError(f"there is no branch {name}: it was deleted just now") from None
        return found, decode_ref_file(found.data, path)

    def _check_snapshot(self, snapshot_id: SnapshotId) -> None:
        try:
            self._storage.info(STANDARD.snapshot(snapshot_id))
        except ObjectNotFoundError:
            raise RefNotFoundError(f"the repository has no snapshot {snapshot_id}") from None
