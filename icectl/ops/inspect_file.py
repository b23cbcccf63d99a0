"""One file of the format: its kind, content and problems.

The content determines the kind; a name that the format defines implies the expected kind.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from icectl.errors import (
    FormatError,
    ObjectNotFoundError,
    RefNotFoundError,
    Remedy,
    StorageError,
    UsageError,
)
from icectl.format.envelope import Generation
from icectl.format.inspection import Inspection, inspect_bytes
from icectl.limits import MIB
from icectl.model.ids import ALPHABET, ChunkId
from icectl.model.manifest import Manifest, RefKind
from icectl.model.redaction import redact_location, redact_locations
from icectl.repository.layout import CONFIG_PATH, DRAFT, STANDARD
from icectl.repository.ops_log import BACKUPS, REPO_PATH
from icectl.repository.ref_files import TOMBSTONE
from icectl.storage.paths import check_path, check_size

if TYPE_CHECKING:
    from icectl.repository.repository import Repository


def _name_pattern(end: str) -> re.Pattern[str]:
    return re.compile(rf"(^|/)({end})$")


_ID = f"[{ALPHABET}]{{20,26}}"
"""Early generations have longer ids."""
_FILE_TYPES = {1: "snapshot", 2: "manifest", 3: "attributes", 4: "transaction_log", 6: "repo"}
_NAMES = {
    "repo": _name_pattern(rf"{REPO_PATH}|{BACKUPS}/{REPO_PATH}\.[^/]+"),
    "config": _name_pattern(rf"{re.escape(CONFIG_PATH)}|{BACKUPS}/{re.escape(CONFIG_PATH)}\.[^/]+"),
    "ref": _name_pattern(
        rf"{STANDARD.refs}/(branch|tag)\.[^/]+/[^/]+\.json|{DRAFT.refs}/[^/]+/[{ALPHABET}]{{8}}\.json"
    ),
    "snapshot": _name_pattern(rf"({STANDARD.snapshots}|{DRAFT.snapshots})/{_ID}"),
    "manifest": _name_pattern(rf"({STANDARD.manifests}|{DRAFT.manifests})/{_ID}"),
    "transaction_log": _name_pattern(rf"{STANDARD.transactions}/{_ID}"),
    "attributes": _name_pattern(rf"({STANDARD.attributes}|{DRAFT.attributes})/{_ID}"),
}
_KIND_NAMES = ("native", "inline", "virtual", "virtual")


@dataclass(frozen=True, slots=True)
class HeaderResult:
    implementation: str
    spec_version: int
    file_type: str
    compression: str


@dataclass(frozen=True, slots=True)
class InspectFileResult:
    path: str
    generation: str | None
    header: HeaderResult | None
    size_bytes: int
    payload_bytes: int
    kind: str
    content: dict[str, Any]
    unknown_fields: list[str]
    problems: list[str]


def describe_file(path: str, data: bytes) -> tuple[InspectFileResult, Inspection]:
    """Decode as much of the file as possible; damage is listed, not raised."""
    inspection = inspect_bytes(data, expected_kind(path))
    header = inspection.header
    kind, content = inspection.kind, inspection.content
    if not data and path.endswith(f"/{TOMBSTONE}"):
        # The file is empty: only its name marks the tag as deleted.
        kind, content = "ref", {"deleted": True}
    result = InspectFileResult(
        path=path,
        generation=inspection.generation and str(inspection.generation),
        header=None
        if header is None
        else HeaderResult(
            header.implementation,
            header.spec_version,
            _FILE_TYPES.get(header.file_type, str(header.file_type)),
            "zstd" if header.compression else "none",
        ),
        size_bytes=len(data),
        payload_bytes=len(inspection.payload),
        kind=kind,
        content=redact_locations(content),
        unknown_fields=[
            f"{field.table} field {field.slot} ({field.count} times)"
            for field in inspection.unknown_fields
        ],
        problems=[problem.message for problem in inspection.problems],
    )
    return result, inspection


def expected_kind(path: str) -> str | None:
    """The kind that the name of a file implies; None for a chunk and for any unknown name."""
    return next((kind for kind, name in _NAMES.items() if name.search(path)), None)


def read_local_file(path: Path) -> bytes:
    """Read a file that the user named: follow links, and read from pipes, too."""
    if path.is_fifo():
        with path.open("rb") as stream:
            return read_stream(stream, str(path))
    from icectl.storage.beneath import Beneath

    place = Beneath(str(path.parent), follow_links=True)
    file, status = place.open_file_at(path.name)
    try:
        return place.read_whole(file, status, path.name)
    finally:
        os.close(file)


def read_stream(stream: BinaryIO, name: str) -> bytes:
    """Read up to the size limit: a pipe may be endless."""
    with suppress(OSError):
        check_size(name, os.fstat(stream.fileno()).st_size)
    parts, size = [], 0
    while part := stream.read(MIB):
        parts.append(part)
        size += len(part)
        check_size(name, size)
    return b"".join(parts)


def read_named_file(repository: Repository, name: str) -> tuple[str, bytes]:
    """Find a file of a repository by its relative name or by its id.

    A snapshot and its transaction log share one id; the id alone means the snapshot.
    """
    storage, layout = repository.storage, repository.layout
    hint = "Give a path, a URL, an id, or a name such as snapshots/1CECHNKREP0F1RSTCMT0."
    try:
        check_path(name)
    except StorageError:
        raise UsageError(
            f"{name} is not the name of a file inside the repository",
            hint=Remedy("omit-repository"),
        ) from None
    if "/" in name or "." in name or name == "repo":
        paths, missing = [name], f"the repository has no file {name}"
    else:
        directories = (layout.snapshots, layout.manifests, layout.chunks, layout.transactions)
        paths = [f"{directory}/{name.upper()}" for directory in directories if directory]
        missing = f"the repository has no snapshot, manifest, chunk or transaction log {name}"
    for path in paths:
        try:
            return path, storage.read(path)
        except ObjectNotFoundError:
            continue
    raise RefNotFoundError(missing, hint=hint)


def iterate_references(path: str, data: bytes, inspection: Inspection) -> Iterator[dict[str, Any]]:
    """The references of a manifest, one at a time."""
    if inspection.kind != "manifest":
        raise UsageError(
            f"{path} is of the kind {inspection.kind}; only a manifest has references",
            hint=Remedy("omit-refs"),
        )
    try:
        yield from _references(_decode(data, inspection))
    except FormatError as error:
        raise error.at(path) from None


def _decode(data: bytes, inspection: Inspection) -> Manifest:
    from icectl.format.legacy.columns import legacy_manifest_columns
    from icectl.format.legacy.manifest import decode_legacy_manifest
    from icectl.format.manifest import decode_manifest

    if inspection.generation in (Generation.ALPHA_RAW, Generation.ALPHA_BINARY):
        return legacy_manifest_columns(decode_legacy_manifest(inspection.payload))
    return decode_manifest(data)


def _references(manifest: Manifest) -> Iterator[dict[str, Any]]:
    from icectl.format.manifest import decode_locations

    for array in manifest.arrays:
        refs = array.refs
        locations = decode_locations(manifest, refs)
        for row in range(len(refs)):
            kind = int(refs.kind[row])
            reference: dict[str, Any] = {
                "node_id": array.node_id,
                "index": refs.coordinates[row].tolist(),
                "kind": _KIND_NAMES[kind],
            }
            if kind == RefKind.INLINE:
                reference["length"] = int(refs.content.length[row])
            else:
                if kind == RefKind.NATIVE:
                    reference["chunk_id"] = ChunkId(refs.chunk_id[row].tobytes())
                else:
                    reference["location"] = redact_location(locations[row] or "")
                reference["offset"] = int(refs.offset[row])
                reference["length"] = int(refs.length[row])
            if refs.checksum_etag is not None and refs.checksum_etag.start[row]:
                reference["checksum_etag"] = refs.checksum_etag[row].decode(errors="replace")
            if refs.checksum_last_modified is not None and refs.checksum_last_modified[row]:
                reference["checksum_last_modified"] = int(refs.checksum_last_modified[row])
            yield reference
