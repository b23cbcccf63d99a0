"""Branches and tags as files: every generation before V2.

One listing tells which file holds each ref (`format.refs` knows the names), and those are read
at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from icectl.errors import FormatError, Remedy, StorageError
from icectl.format.refs import RefNames, decode_ref, interpret_ref_names
from icectl.model.ids import SnapshotId
from icectl.repository.layout import Layout
from icectl.storage.contract import Storage

REF_FILE = "ref.json"
TOMBSTONE = "ref.json.deleted"


@dataclass(frozen=True, slots=True)
class Refs:
    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]


def branch_file(name: str) -> str:
    return f"refs/branch.{name}/{REF_FILE}"


def tag_file(name: str) -> str:
    return f"refs/tag.{name}/{REF_FILE}"


def read_ref_names(storage: Storage, layout: Layout) -> RefNames:
    return interpret_ref_names(info.path for info in storage.list(layout.refs, with_info=False))


def read_refs(storage: Storage, names: RefNames) -> Refs:
    targets: dict[str, SnapshotId] = {}
    for path, data in storage.read_many([*names.branches.values(), *names.tags.values()]):
        if isinstance(data, StorageError):
            raise data
        targets[path] = decode_ref_file(data, path)
    return Refs(
        {name: targets[path] for name, path in names.branches.items()},
        {name: targets[path] for name, path in names.tags.items()},
    )


def decode_ref_file(data: bytes, path: str) -> SnapshotId:
    try:
        return decode_ref(data)
    except FormatError as error:
        # Nothing else knows where the ref pointed: only its writer can mend it.
        error.hint = Remedy("rewrite-ref")
        raise error.at(path) from None
