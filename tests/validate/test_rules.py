"""Each rule's damage on a fresh repository gives that code; an undamaged one gives none."""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from icectl.checks.rules import Level, catalogue
from icectl.errors import FormatError
from icectl.format.repo import decode_raw_repo
from icectl.model.ids import SnapshotId
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.repository.history import History
from icectl.storage.local import LocalStorage
from icectl.storage.open import open_storage
from tests.official import built
from tests.validate.damage import Patient, build, copied_with_source
from tests.validate.damages import DAMAGES, DAMAGES_V1, zarr_json

pytest.importorskip("icechunk")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, build, 2)


@pytest.fixture(scope="module")
def whole_v1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, build, 1)


def codes(where: Path, **options: Any) -> dict[str, Any]:
    """Everything that is found at the deepest level, by code."""
    settings = ValidateOptions(
        level=Level.DATA,
        decode=True,
        open_source=lambda url: open_storage(url),
        allowed_sources=("file:///", "gopher://host"),
        **options,
    )
    result, _ = validate(LocalStorage(where), settings)
    found: dict[str, Any] = {}
    for finding in result.findings:
        found.setdefault(finding.code, []).append(finding)
    return found


def relocated(where: Path, p: Patient, original: Path) -> None:
    """The copy's references lead to the copy of the source."""
    old, new = f"file://{original.absolute()}.virtual/", f"file://{where.absolute()}.virtual/"

    def move(refs: list[Any]) -> None:
        for ref in refs:
            ref.location = ref.location.replace(old, new)

    p.manifest("/virtual", move)
    size = (where / "manifests" / p.manifest_of("/virtual")).stat().st_size
    name = p.manifest_of("/virtual")
    for snapshot in p.history[:-1]:
        p.snapshot(
            lambda raw: raw._replace(
                manifest_files_v2=tuple(
                    replace(one, size_bytes=size) if str(one.id) == name else one
                    for one in raw.manifest_files_v2
                )
            ),
            snapshot,
        )


def test_every_rule_has_its_damage() -> None:
    of_object_stores = {"ICE0023"}  # see test_servers
    assert DAMAGES.keys() | DAMAGES_V1.keys() | of_object_stores == catalogue().keys()


@pytest.mark.parametrize("spec_version", [1, 2])
def test_nothing_is_found_in_a_whole_repository(
    whole: Path, whole_v1: Path, spec_version: int
) -> None:
    assert codes(whole if spec_version == 2 else whole_v1) == {}


@pytest.mark.parametrize("code", sorted(DAMAGES))
def test_damage_is_found(code: str, whole: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole, tmp_path / "repo")
    patient = Patient(where)
    if catalogue()[code].level is None:
        relocated(where, patient, whole)
        assert codes(where).keys() == {"ICE0604"}
        if code == "ICE0604":
            return
    DAMAGES[code](patient)
    found = codes(where)
    assert code in found, sorted(found)
    for finding in found[code]:
        assert finding.severity == catalogue()[code].severity
        assert finding.detail


@pytest.mark.parametrize(
    "changes",
    [{"chunk_grid": None}, {"chunk_grid": {}}, {"codecs": None}, {"codecs": []}, {"codecs": [{}]}],
)
def test_what_an_array_must_have(changes: dict[str, Any], whole: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole, tmp_path / "repo")
    zarr_json("/virtual", **changes)(Patient(where))
    assert "ICE0119" in codes(where)


@pytest.mark.parametrize("code", sorted(DAMAGES_V1))
def test_damage_is_found_in_v1(code: str, whole_v1: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole_v1, tmp_path / "repo")
    DAMAGES_V1[code](Patient(where))
    assert code in codes(where)


@pytest.mark.parametrize("entry", [-1, -2])
def test_every_snapshot_of_a_cycle_is_checked(entry: int, whole_v1: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole_v1, tmp_path / "repo")
    patient = Patient(where)
    in_cycle = patient.history if entry == -1 else patient.history[:-1]
    patient.snapshot(
        lambda raw: raw._replace(parent_id=SnapshotId.parse(patient.tip)), patient.history[entry]
    )
    manifests = list((where / "manifests").iterdir())
    for path in manifests:
        path.write_bytes(b"overwritten")
    settings = ValidateOptions(level=Level.MANIFESTS)
    result, _ = validate(LocalStorage(where), settings)
    assert not result.ok
    assert result.checked.snapshots == len(in_cycle)
    found = {finding.code: finding for finding in result.findings}
    assert found["ICE0006"].severity == "error"
    assert result.by_code["ICE0302"] == len(manifests)


def test_a_snapshot_that_was_not_visited_fails_the_run(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(History, "parents_first", lambda self: iter(()))
    with pytest.raises(FormatError):
        validate(LocalStorage(whole), ValidateOptions())


BAD_NAMES = ["../../etc/passwd", "", ".", "a//b", "a\0b", "x" * 5000, "/etc/passwd", "overwritten"]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("field", ["backup_path", "repo_before_updates"])
def test_a_copy_that_cannot_be_is_a_finding(
    field: str, name: str, whole: Path, tmp_path: Path
) -> None:
    """And what lies behind is checked all the same."""
    where = copied_with_source(whole, tmp_path / "repo")
    patient = Patient(where)
    if field == "backup_path":
        patient.repo(
            lambda raw: raw._replace(
                latest_updates=(
                    *raw.latest_updates[:1],
                    *(replace(one, backup_path=name) for one in raw.latest_updates[1:3]),
                    *raw.latest_updates[3:],
                )
            )
        )
    else:
        patient.repo(lambda raw: raw._replace(repo_before_updates=name))
    patient.chunk_of("/g/native").unlink()
    found = codes(where)
    assert found.keys() & {"ICE0014", "ICE0015"}
    assert "ICE0401" in found


def mutations(value: Any) -> list[Any]:
    """Other values of the same type, all of which a damaged file can hold."""
    match value:
        case bool():
            return [not value]
        case int():
            return [value ^ 1, 0, 127]
        case str():
            return ["", "\0", "../..", "/", "x" * 70_000, "\N{SNOWMAN}://a:b@c", "-"]
        case SnapshotId():
            return [SnapshotId(bytes(12)), SnapshotId(b"\xff" * 12)]
        case bytes():
            return [b"", b"\xff" * 9, value[:-1]]
        case tuple():
            return [(), value[:1], value + value, value[::-1]]
        case None:
            return []
        case _:
            return []


def mutated(value: Any) -> Any:
    """Every copy of the tables in which one field, anywhere, has another value."""
    yield from mutations(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        for name in value._fields:
            for other in mutated(getattr(value, name)):
                yield value._replace(**{name: other})
    elif isinstance(value, tuple):
        for place in {0, len(value) - 1} if value else ():
            for other in mutated(value[place]):
                yield (*value[:place], other, *value[place + 1 :])
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            for other in mutated(getattr(value, field.name)):
                yield replace(value, **{field.name: other})


def test_no_value_in_the_repo_file_ends_the_validation(whole: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole, tmp_path / "repo")
    patient = Patient(where)
    raw, _ = decode_raw_repo((where / "repo").read_bytes())
    chunk = patient.chunk_of("/g/native")
    chunk.unlink()
    count = 0
    for other in mutated(raw):
        try:
            patient.repo(lambda _, other=other: other)
        except (struct.error, AttributeError):
            continue  # not a value of the format
        result, _ = validate(LocalStorage(where), ValidateOptions(level=Level.CHUNKS))
        count += 1
        if "ICE0001" not in result.by_code and "/g/native" in str(result.findings):
            assert not result.ok
        assert result.by_code
    assert count > 100
