"""Ref files of spec version 1 and earlier: their content and their names.

Up to spec version 1, a branch or a tag is a small JSON file. Older generations write a new
file for each commit to a branch, with a name that sorts before the older ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from icectl import limits
from icectl.errors import FormatError
from icectl.model.ids import ALPHABET, SnapshotId

_SEQUENCE_FILE = re.compile(rf"[{ALPHABET}]{{8}}\.json")


@dataclass(frozen=True, slots=True)
class RefData:
    snapshot: SnapshotId
    timestamp: str | None = None
    """Only the earliest generation stores a time and properties."""
    properties: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RefNames:
    """The refs of a repository, each with the path of the file that contains its snapshot id."""

    branches: Mapping[str, str]
    tags: Mapping[str, str]
    deleted_tags: frozenset[str]
    unknown: tuple[str, ...]
    """Paths that do not match any known layout."""


def decode_ref(data: bytes) -> SnapshotId:
    return decode_ref_data(data).snapshot


def decode_ref_data(data: bytes) -> RefData:
    limits.require("REF_BYTES", len(data), limits.REF_BYTES, "the size of a ref file in bytes is")
    try:
        document = json.loads(data, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the ref file is not JSON: {error}", offset=0) from error
    if not isinstance(document, dict) or "snapshot" not in document:
        raise FormatError("the ref file does not contain a snapshot id")
    timestamp, properties = document.get("timestamp"), document.get("properties", {})
    if not isinstance(timestamp, str | None) or not isinstance(properties, dict):
        raise FormatError("the timestamp or the properties of the ref file have the wrong type")
    return RefData(_snapshot_id(document["snapshot"]), timestamp, properties)


def encode_ref(snapshot: SnapshotId) -> bytes:
    """Encode a ref file exactly as the official writer of spec version 1 does."""
    return f'{{"snapshot":"{snapshot}"}}'.encode()


def interpret_ref_names(paths: Iterable[str]) -> RefNames:
    """Return the refs with these paths below `refs/` (`r/` in the earliest layout).

    Names are not decoded. The official client percent-encodes some characters on some storages,
    and lists the encoded names, too.
    """
    branches: dict[str, str] = {}
    tags: dict[str, str] = {}
    deleted_tags: set[str] = set()
    unknown: list[str] = []
    for path in sorted(paths):
        # "refs/branch.main/ref.json" -> "refs", "branch.main", "ref.json"
        prefix, _, name = path.partition("/")
        name, _, file = name.rpartition("/")
        kind, _, ref = name.partition(".")
        if prefix == "r":
            if name and _SEQUENCE_FILE.fullmatch(file):
                branches.setdefault(name, path)
            elif not name and file.endswith(".json") and file != ".json":
                tags[file.removesuffix(".json")] = path
            else:
                unknown.append(path)
        elif prefix != "refs" or not ref:
            unknown.append(path)
        elif kind == "branch" and file == "ref.json":
            branches[ref] = path
        elif kind == "branch" and _SEQUENCE_FILE.fullmatch(file):
            branches.setdefault(ref, path)
        elif kind == "tag" and file == "ref.json":
            tags[ref] = path
        elif kind == "tag" and file == "ref.json.deleted":
            deleted_tags.add(ref)
        else:
            unknown.append(path)
    return RefNames(
        branches=branches,
        tags={name: path for name, path in tags.items() if name not in deleted_tags},
        deleted_tags=frozenset(deleted_tags),
        unknown=tuple(unknown),
    )


def _snapshot_id(value: object) -> SnapshotId:
    """Parse an id: a text, or in the earliest generation a list of 16 bytes."""
    try:
        if isinstance(value, str):
            return SnapshotId.parse(value)
        if isinstance(value, list) and all(type(byte) is int for byte in value):
            return SnapshotId(bytes(value))
    except ValueError as error:
        raise FormatError(f"the ref file contains an invalid snapshot id: {error}") from error
    raise FormatError("the ref file contains an invalid snapshot id")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("duplicate name")
    return document


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON value")
