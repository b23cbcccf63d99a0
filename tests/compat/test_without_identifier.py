"""Files without the flatbuffers identifier, which the specification does not ask for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.format.envelope import decode_envelope, encode_envelope
from tests.compat.identifiers import KINDS, metadata_files, strip_identifiers
from tests.official import built, copied, open_official, read_everything
from tests.validate.damage import build

Capture = pytest.CaptureFixture[str]
COMMANDS = (
    ["log", "main"],
    ["ls", "main"],
    ["diff", "main~1", "main"],
    ["validate", "--level", "data", "--fail-on", "warning"],
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
