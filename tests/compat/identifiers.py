"""Remove the flatbuffers identifier from the files of a repository."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from icectl.format.envelope import FileType, decode_envelope, encode_envelope
from icectl.format.schema import SNAPSHOT, RawSnapshot
from icectl.format.snapshot import decode_snapshot
from icectl.format.writer import Writer

KINDS = {
    "repo": FileType.REPO_INFO,
    "overwritten": FileType.REPO_INFO,
    "manifests": FileType.MANIFEST,
    "transactions": FileType.TRANSACTION_LOG,
    "snapshots": FileType.SNAPSHOT,
}


def metadata_files(repository: Path) -> list[Path]:
    """Manifests before snapshots, which know their sizes."""
    return [
        path
        for name in KINDS
        for path in (
            [repository / name] if name == "repo" else sorted((repository / name).glob("*"))
        )
        if path.is_file() and not path.name.startswith("config")
    ]


def strip_identifiers(repository: Path, spec_version: int) -> None:
    for path in metadata_files(repository):
        kind = KINDS[path.relative_to(repository).parts[0]]
        data = path.read_bytes()
        payload = bytearray(decode_envelope(data).payload)
        if kind is FileType.SNAPSHOT:
            payload = bytearray(_with_sizes(data, repository / "manifests"))
        assert payload[4:8] == b"Ichk"
        payload[4:8] = bytes(4)
        path.write_bytes(encode_envelope(payload, kind, spec_version))


def _with_sizes(data: bytes, manifests: Path) -> bytes | bytearray:
    snapshot = decode_snapshot(data)

    def sized(files: Any) -> Any:
        return files and tuple(
            replace(file, size_bytes=(manifests / str(file.id)).stat().st_size) for file in files
        )

    raw = RawSnapshot(**{name: getattr(snapshot, name) for name in RawSnapshot._fields})
    return Writer().write_root(
        SNAPSHOT,
        raw._replace(
            manifest_files=sized(raw.manifest_files),
            manifest_files_v2=sized(raw.manifest_files_v2),
        ),
    )
