"""Files without the flatbuffers identifier, which the specification does not ask for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.format.envelope import FileType, decode_envelope, encode_envelope
from icectl.format.schema import SNAPSHOT, RawSnapshot
from icectl.format.snapshot import decode_snapshot
from icectl.format.writer import Writer
from tests.official import built, copied, open_official, read_everything
from tests.validate.damage import build

Capture = pytest.CaptureFixture[str]
KINDS = {
    "repo": FileType.REPO_INFO,
    "overwritten": FileType.REPO_INFO,
    "manifests": FileType.MANIFEST,
    "transactions": FileType.TRANSACTION_LOG,
    "snapshots": FileType.SNAPSHOT,
}
COMMANDS = (
    ["log", "main"],
    ["ls", "main"],
    ["diff", "main~1", "main"],
    ["validate", "--level", "data", "--fail-on", "warning"],
)


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


def answer(arguments: list[str], capsys: Capture) -> tuple[int, Any]:
    code = run([*arguments, "--json"], {})
    captured = capsys.readouterr()
    return code, json.loads(captured.out or captured.err)


@pytest.mark.parametrize("spec_version", [1, 2])
def test_repository(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, capsys: Capture, spec_version: int
) -> None:
    original = built(tmp_path_factory, build, spec_version)
    where = copied(original, tmp_path / "repo")
    strip_identifiers(where, spec_version)
    assert read_everything(open_official(where)) == read_everything(open_official(original))
    for command in COMMANDS:
        expected = answer([*command, "-r", str(original)], capsys)
        assert answer([*command, "-r", str(where)], capsys) == expected
        assert expected[0] == 0, expected
    for command in (["stats"], ["gc", "--older-than", "7d", "--dry-run"]):
        assert answer([*command, "-r", str(where)], capsys)[0] == 0
    assert answer(["tag", "create", "new", "main", "-r", str(where)], capsys)[0] == 0
    assert open_official(where).lookup_tag("new")
    for path in metadata_files(where):
        code, document = answer(["inspect-file", str(path)], capsys)
        assert code == 0, document
        assert document["generation"] == f"v{spec_version}"
        assert document["problems"] == []


@pytest.mark.parametrize("spec_version", [1, 2])
def test_a_damaged_root_is_damage_and_not_another_generation(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, capsys: Capture, spec_version: int
) -> None:
    where = copied(built(tmp_path_factory, build, spec_version), tmp_path / "repo")
    strip_identifiers(where, spec_version)
    for name in ("snapshots", "manifests", "transactions"):
        path = next(iter(sorted((where / name).iterdir())))
        payload = bytearray(decode_envelope(path.read_bytes()).payload)
        for byte in range(256):
            if byte == payload[0]:
                continue
            damaged = bytes((byte, *payload[1:]))
            path.write_bytes(encode_envelope(damaged, KINDS[name], spec_version))
            code, document = answer(["inspect-file", str(path)], capsys)
            assert code == 13, document
