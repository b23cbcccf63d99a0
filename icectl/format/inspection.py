"""Identify any file by its content, and decode as much as possible of a damaged one.

The decoded content uses the names of the specification. Encoded values (FlexBuffers, MessagePack,
JSON) are decoded; references of a manifest are counted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from icectl.errors import FormatError, LimitExceededError, UnsupportedError
from icectl.format.envelope import (
    MAGIC,
    SPEC_VERSION_OFFSET,
    FileType,
    Generation,
    Header,
    decode_header,
    decompress_partial,
    detect_generation,
)
from icectl.format.reader import Reader
from icectl.format.schema import MANIFEST, REPO, SNAPSHOT, TRANSACTION_LOG
from icectl.model.ids import INITIAL_SNAPSHOT_ID, ObjectId
from icectl.model.values import UnknownField

if TYPE_CHECKING:
    from icectl.model.manifest import Manifest

_TABLES = {
    FileType.REPO_INFO: ("repo", REPO),
    FileType.SNAPSHOT: ("snapshot", SNAPSHOT),
    FileType.MANIFEST: ("manifest", MANIFEST),
    FileType.TRANSACTION_LOG: ("transaction_log", TRANSACTION_LOG),
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES = frozenset({"flushed_at", "set_at", "updated_at"})


@dataclass(frozen=True, slots=True)
class Inspection:
    generation: str | None
    """None for files that are the same in several generations: refs, configs and chunks."""
    header: Header | None
    size_bytes: int
    payload: bytes | bytearray
    kind: str
    content: dict[str, Any]
    problems: tuple[FormatError, ...] = ()
    unknown_fields: tuple[UnknownField, ...] = ()


def inspect_bytes(data: bytes, expected: str | None = None) -> Inspection:
    """Return kind, content and problems of a file; never raise an error.

    The content determines the kind. `expected` is the kind that the name of the file implies;
    different content is then a problem rather than a chunk.
    """
    found = _inspect(data)
    if expected is None or found.kind == expected or found.problems:
        return found
    if found.header is not None or found.generation is not None:
        kind = found.kind.replace("_", " ")
        return replace(found, problems=(_unexpected(expected, f"the content is a {kind}"),))
    try:
        if expected == "config":
            from icectl.format.config import decode_config_yaml

            return replace(found, kind=expected, content=decode_config_yaml(data))
        if expected == "ref":
            _decode_ref(data)
        reason = "the content is not in a known format" if data else "the file is empty"
    except FormatError as error:
        reason = error.reason
    return replace(found, kind="unknown", content={}, problems=(_unexpected(expected, reason),))


def _unexpected(expected: str, reason: str) -> FormatError:
    return FormatError(f"not a valid {expected.replace('_', ' ')} file: {reason}")


def _inspect(data: bytes) -> Inspection:
    if data[: len(MAGIC)] == MAGIC:
        return _inspect_with_header(data)
    for kind, decode in (("ref", _decode_ref), ("config", _decode_config)):
        try:
            return Inspection(None, None, len(data), data, kind, decode(data))
        except FormatError:
            continue
    try:
        return _inspect_legacy(Generation.ALPHA_RAW, None, data, data)
    except FormatError:
        # Any bytes may be a chunk: only its Zarr codecs define the format.
        return Inspection(None, None, len(data), data, "chunk", {"length": len(data)})


def _inspect_with_header(data: bytes) -> Inspection:
    try:
        found = decode_header(data)
    except UnsupportedError as error:
        newer = FormatError(error.message, offset=SPEC_VERSION_OFFSET)
        return Inspection(None, None, len(data), b"", "unknown", {}, (newer,))
    except FormatError as error:
        return Inspection(None, None, len(data), b"", "unknown", {}, (error,))
    assert found is not None
    header, size = found
    payload: bytes | bytearray = data[size:]
    problems = []
    if header.compression:
        payload, problem = decompress_partial(data, size)
        if isinstance(problem, LimitExceededError):
            kind = _TABLES.get(FileType(header.file_type), ("unknown",))[0]
            return Inspection(None, header, len(data), b"", kind, {}, (problem,))
        if problem is not None:
            problems.append(problem)
    try:
        generation = detect_generation(payload, header.spec_version)
        if generation is Generation.ALPHA_BINARY:
            from icectl.format.legacy.payload import check_elements

            check_elements(payload, len(data))
        if header.file_type not in _TABLES or generation is Generation.ALPHA_BINARY:
            return _inspect_legacy(generation, header, data, payload)
    except FormatError as error:
        problems.append(error)
        kind = _TABLES.get(FileType(header.file_type), ("unknown",))[0]
        return Inspection(None, header, len(data), payload, kind, {}, tuple(problems))
    kind, table = _TABLES[FileType(header.file_type)]
    reader = Reader(payload, problems, file_size=len(data))
    try:
        content = reader.read_root(table)
    except FormatError as error:
        problems.append(error)
        content = {}
    if kind == "manifest" and not problems:
        try:
            _count_references(data, content)
        except FormatError as error:
            problems.append(error)
    content = _decode_values(content, header.spec_version, problems)
    return Inspection(
        generation,
        header,
        len(data),
        payload,
        kind,
        content,
        tuple(problems),
        reader.unknown_fields,
    )


def _count_references(data: bytes, content: dict[str, Any]) -> None:
    from icectl.format.manifest import decode_manifest

    for array, counted in zip(decode_manifest(data).arrays, content["arrays"], strict=True):
        counted["refs"] = count_kinds(array.refs.kind)


def count_kinds(kinds: Any) -> dict[str, int]:
    """Count references by kind and in total."""
    import numpy as np

    native, inline, virtual, compressed = np.bincount(kinds, minlength=4).tolist()
    return {
        "count": len(kinds),
        "native": native,
        "inline": inline,
        "virtual": virtual + compressed,
        "virtual_compressed": compressed,
    }


def _inspect_legacy(
    generation: Generation, header: Header | None, data: bytes, payload: bytes | bytearray
) -> Inspection:
    from icectl.format.legacy.columns import legacy_manifest_columns
    from icectl.format.legacy.layouts import guess_legacy_kind
    from icectl.format.legacy.manifest import decode_legacy_manifest
    from icectl.format.legacy.snapshot import decode_legacy_snapshot
    from icectl.format.legacy.transaction_log import (
        decode_legacy_attributes,
        decode_legacy_transaction_log,
    )

    kind = guess_legacy_kind(payload)
    problems: list[FormatError] = []
    if kind == "manifest":
        manifest = legacy_manifest_columns(decode_legacy_manifest(payload))
        content = _plain_manifest(manifest)
    elif kind == "transaction_log":
        # In these generations only the name of the file contains the id.
        content = _plain(decode_legacy_transaction_log(payload, INITIAL_SNAPSHOT_ID))
        del content["id"]
    elif kind == "snapshot":
        content = _decode_values(_plain(decode_legacy_snapshot(payload)), 1, problems)
    else:
        content = decode_legacy_attributes(payload)
    return Inspection(generation, header, len(data), payload, kind, content, tuple(problems))


def _plain_manifest(manifest: Manifest) -> dict[str, Any]:
    return {
        "id": manifest.id,
        "arrays": [
            {"node_id": array.node_id, "refs": count_kinds(array.refs.kind)}
            for array in manifest.arrays
        ],
    }


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        shown = {
            field.name.rstrip("_"): _plain(getattr(value, field.name))
            for field in fields(value)
            if field.name not in ("unknown_fields", "spec_version")
        }
        return shown or {"type": type(value).__name__}
    if isinstance(value, tuple | list):
        return [_plain(element) for element in value]
    return value


def _decode_ref(data: bytes) -> dict[str, Any]:
    from icectl.format.refs import decode_ref_data

    return {key: value for key, value in _plain(decode_ref_data(data)).items() if value is not None}


def _decode_config(data: bytes) -> dict[str, Any]:
    from icectl.format.config import decode_config_yaml

    config = decode_config_yaml(data)
    if not config or not all(key.isidentifier() for key in config):
        raise FormatError("not a repository configuration")
    return config


def _decode_values(value: Any, spec_version: int, problems: list[FormatError]) -> Any:
    """Return the value with all encoded byte strings decoded."""
    if isinstance(value, list | tuple):
        return [_decode_values(element, spec_version, problems) for element in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"name", "value"} and isinstance(value["value"], bytes):
        return {
            "name": value["name"],
            "value": _attempt(value["value"], spec_version == 2, problems, value["name"]),
        }
    decoded = {}
    for name, element in value.items():
        if name in _TIMES and isinstance(element, int):
            element = _moment(element)
        if isinstance(element, bytes) and not isinstance(element, ObjectId):
            if name == "user_data":
                element = _decode_json(element, problems)
            elif name == "config":
                element = _attempt(element, True, problems, name)
            elif name == "extra":
                element = _attempt(element, True, None, name)
            elif name == "location_dictionary":
                element = {"length": len(element)}
        decoded[name] = _decode_values(element, spec_version, problems)
    return decoded


def _moment(microseconds: int) -> datetime | int:
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return microseconds


def _attempt(
    data: bytes, flexbuffers: bool, problems: list[FormatError] | None, name: str | None
) -> Any:
    """Return the decoded value, or the bytes if they cannot be decoded."""
    from icectl.format.values import decode_flexbuffers, decode_msgpack

    try:
        return decode_flexbuffers(data) if flexbuffers else decode_msgpack(data)
    except FormatError as error:
        if problems is not None:
            problems.append(FormatError(f"the value of {name}: {error.reason}"))
        return data


def _decode_json(data: bytes, problems: list[FormatError]) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        problems.append(FormatError(f"the metadata of a node is not JSON: {error}"))
        return data
