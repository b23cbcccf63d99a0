"""Each rule's damage on a fresh repository gives that code; an undamaged one gives none."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from icectl.errors import FormatError
from icectl.format.repo import decode_raw_repo
from icectl.format.schema import SNAPSHOT
from icectl.model.ids import ChunkId, ManifestId, NodeId, SnapshotId
from icectl.model.repo import RepoStatus
from icectl.model.snapshot import ChunkIndexRange, ManifestRef
from icectl.model.transaction_log import MoveOperation
from icectl.ops.validate.history import History
from icectl.ops.validate.rule import Level
from icectl.ops.validate.rules import RULES
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.storage.local import LocalStorage
from icectl.storage.open import open_storage
from tests.official import built
from tests.validate.damage import Patient, build, copied_with_source, with_new_field

pytest.importorskip("icechunk")

Damage = Callable[[Patient], Any]
DAMAGES: dict[str, Damage] = {}
DAMAGES_V1: dict[str, Damage] = {}


def damage(code: str, *, spec_version: int = 2) -> Callable[[Damage], Damage]:
    def register(function: Damage) -> Damage:
        (DAMAGES if spec_version == 2 else DAMAGES_V1)[code] = function
        return function

    return register


def swapped(items: tuple[Any, ...]) -> tuple[Any, ...]:
    return (items[1], items[0], *items[2:])


def truncate(path: Path, by: int = 1) -> None:
    path.write_bytes(path.read_bytes()[:-by])


def cut(name: str) -> Damage:
    return lambda patient: truncate(patient.where / name.format(tip=patient.tip), 9)


# The repo file.

damage("ICE0001")(cut("repo"))
damage("ICE0002")(lambda p: p.repo(lambda raw: raw._replace(spec_version=1)))
damage("ICE0003")(lambda p: p.repo(lambda raw: raw._replace(branches=swapped(raw.branches))))
damage("ICE0004")(
    lambda p: p.repo(
        lambda raw: raw._replace(tags=(raw.tags[0]._replace(snapshot_index=99), *raw.tags[1:]))
    )
)


def with_snapshots(change: Callable[[Any], Any], which: Callable[[Any], bool]) -> Damage:
    return lambda p: p.repo(
        lambda raw: raw._replace(
            snapshots=tuple(change(one) if which(one) else one for one in raw.snapshots)
        )
    )


def has_parent(entry: Any) -> bool:
    return bool(entry.parent_offset >= 0)


def is_tip(p: Patient) -> Callable[[Any], bool]:
    return lambda entry: str(entry.id) == p.tip


damage("ICE0005")(
    lambda p: with_snapshots(lambda one: one._replace(parent_offset=77), is_tip(p))(p)
)


@damage("ICE0006")
def loop(p: Patient) -> None:
    def change(raw: Any) -> Any:
        ids = [str(one.id) for one in raw.snapshots]
        second = p.history[-2]
        return raw._replace(
            snapshots=tuple(
                one._replace(parent_offset=ids.index(p.tip)) if str(one.id) == second else one
                for one in raw.snapshots
            )
        )

    p.repo(change)


damage("ICE0007")(
    lambda p: p.repo(
        lambda raw: raw._replace(branches=tuple(b for b in raw.branches if b.name != "main"))
    )
)
damage("ICE0008")(lambda p: p.repo(lambda raw: raw._replace(deleted_tags=("gone", "kept"))))
damage("ICE0009")(
    lambda p: with_snapshots(lambda one: one._replace(parent_offset=-1), is_tip(p))(p)
)
damage("ICE0010")(
    lambda p: p.repo(
        lambda raw: raw._replace(enabled_feature_flags=(3,), disabled_feature_flags=(3,))
    )
)
damage("ICE0011")(lambda p: p.repo(lambda raw: raw._replace(config=b"\xff\xff\xff")))
damage("ICE0011", spec_version=1)(
    lambda p: (p.where / "config.yaml").write_text("inline_chunk_threshold_bytes: [1, {\n")
)
damage("ICE0012")(lambda p: p.repo(lambda raw: raw._replace(status=RepoStatus(9, 1))))
damage("ICE0013")(
    lambda p: p.repo(lambda raw: raw._replace(latest_updates=swapped(raw.latest_updates)))
)


def newest_backup(p: Patient) -> Path:
    return min((p.where / "overwritten").iterdir())


def oldest_backup(p: Patient) -> Path:
    return max((p.where / "overwritten").iterdir())


damage("ICE0014")(lambda p: newest_backup(p).unlink())
damage("ICE0015")(lambda p: truncate(newest_backup(p), 9))
damage("ICE0016")(
    lambda p: p.repo(
        lambda raw: raw._replace(
            tags=tuple(
                one._replace(snapshot_index=(one.snapshot_index + 1) % len(raw.snapshots))
                for one in raw.tags
            )
        )
    )
)
damage("ICE0017")(
    lambda p: with_snapshots(lambda one: one._replace(pruned_ancestor_tx_logs=()), is_tip(p))(p)
)
damage("ICE0018", spec_version=1)(lambda p: (p.where / "refs" / "stray.json").write_bytes(b"{}"))
damage("ICE0019")(
    lambda p: p.repo(
        lambda raw: raw._replace(
            latest_updates=(
                replace(raw.latest_updates[0], backup_path=raw.latest_updates[1].backup_path),
                *raw.latest_updates[1:],
            )
        )
    )
)
damage("ICE0020")(lambda p: shutil.copy(oldest_backup(p), p.where / "repo"))
damage("ICE0022")(
    lambda p: p.repo(
        lambda raw: raw._replace(
            latest_updates=(
                replace(raw.latest_updates[0], updated_at=2**51),
                *raw.latest_updates[1:],
            )
        )
    )
)

# Snapshots.

damage("ICE0101")(lambda p: (p.where / "snapshots" / p.tip).unlink())
damage("ICE0102")(cut("snapshots/{tip}"))
damage("ICE0103")(
    lambda p: (p.where / "snapshots" / p.tip).write_bytes(
        (p.where / "snapshots" / p.history[1]).read_bytes()
    )
)
damage("ICE0104")(
    lambda p: p.snapshot(lambda raw: raw._replace(parent_id=SnapshotId.parse(p.history[1])))
)
damage("ICE0105")(
    lambda p: p.snapshot(
        lambda raw: raw._replace(manifest_files=raw.manifest_files_v2, manifest_files_v2=None)
    )
)
damage("ICE0106")(lambda p: p.snapshot(lambda raw: raw._replace(message="another")))
damage("ICE0107")(
    lambda p: p.snapshot(
        lambda raw: raw._replace(nodes=(raw.nodes[1], raw.nodes[0], *raw.nodes[2:]))
    )
)
damage("ICE0108")(lambda p: p.node("/virtual", lambda node: replace(node, path="/virtual/")))


@damage("ICE0109")
def same_node_id(p: Patient) -> None:
    other = p.find("/split").id
    p.node("/virtual", lambda node: replace(node, id=other))


damage("ICE0110")(
    lambda p: p.snapshot(
        lambda raw: raw._replace(nodes=tuple(node for node in raw.nodes if node.path != "/g"))
    )
)
damage("ICE0111")(
    lambda p: p.snapshot(lambda raw: raw._replace(metadata=swapped(raw.metadata)), p.history[-2])
)
damage("ICE0112")(
    lambda p: p.snapshot(lambda raw: raw._replace(manifest_files_v2=swapped(raw.manifest_files_v2)))
)
damage("ICE0113")(
    lambda p: p.snapshot(lambda raw: raw._replace(manifest_files_v2=raw.manifest_files_v2[1:]))
)
damage("ICE0114")(lambda p: p.array("/virtual", manifests=()))
damage("ICE0115")(
    lambda p: p.snapshot(
        lambda raw: raw._replace(
            manifest_files_v2=tuple(
                replace(one, num_chunk_refs=77) for one in raw.manifest_files_v2
            )
        )
    )
)


def with_extents(path: str, change: Callable[[tuple[ManifestRef, ...]], Any]) -> Damage:
    return lambda p: p.array(path, manifests=change(p.find(path).node_data.manifests))  # type: ignore[union-attr]


def extents(ref: ManifestRef, *ranges: tuple[int, int]) -> ManifestRef:
    return replace(ref, extents=tuple(ChunkIndexRange(*one) for one in ranges))


damage("ICE0116")(with_extents("/split", lambda refs: (extents(refs[0], (1, 1)), *refs[1:])))
damage("ICE0117")(with_extents("/split", lambda refs: tuple(extents(one, (0, 4)) for one in refs)))
damage("ICE0118")(with_extents("/virtual", lambda refs: (extents(refs[0], (0, 9)),)))
damage("ICE0119")(lambda p: p.node("/virtual", lambda node: replace(node, user_data=b"{]")))


def zarr_json(path: str, **changes: Any) -> Damage:
    def change(node: Any) -> Any:
        document = json.loads(node.user_data) | changes
        return replace(node, user_data=json.dumps(document).encode())

    return lambda p: p.node(path, change)


damage("ICE0120")(zarr_json("/virtual", shape=[17]))
damage("ICE0121")(lambda p: p.snapshot(lambda raw: raw, table=with_new_field(SNAPSHOT)))


@damage("ICE0122")
def component_order(p: Patient) -> None:
    """`/g/native` before `/g-x`: right by components, wrong by bytes."""

    def change(raw: Any) -> Any:
        group = next(node for node in raw.nodes if node.path == "/later")
        new = replace(group, id=NodeId(b"12345678"), path="/g-x")
        place = next(n for n, node in enumerate(raw.nodes) if node.path == "/g/native")
        return raw._replace(nodes=(*raw.nodes[: place + 1], new, *raw.nodes[place + 1 :]))

    p.snapshot(change)


# What spec version 1 has of its own.

damage("ICE0001", spec_version=1)(
    lambda p: (p.where / "refs" / "tag.kept" / "ref.json").write_bytes(b'{"snapshot":')
)


@damage("ICE0006", spec_version=1)
def loop_v1(p: Patient) -> None:
    p.snapshot(
        lambda raw: raw._replace(parent_id=SnapshotId.parse(p.tip)), snapshot_id=p.history[-2]
    )


damage("ICE0104", spec_version=1)(lambda p: p.snapshot(lambda raw: raw._replace(parent_id=None)))
damage("ICE0105", spec_version=1)(
    lambda p: p.snapshot(lambda raw: raw._replace(manifest_files_v2=raw.manifest_files))
)
damage("ICE0101", spec_version=1)(lambda p: (p.where / "snapshots" / p.history[1]).unlink())
damage("ICE0301", spec_version=1)(
    lambda p: (p.where / "manifests" / p.manifest_of("/g/native")).unlink()
)
damage("ICE0207", spec_version=1)(
    lambda p: p.log(lambda raw: raw._replace(new_groups=(NodeId(b"12345678"),)))
)

# Transaction logs.

damage("ICE0201")(lambda p: (p.where / "transactions" / p.tip).unlink())
damage("ICE0202")(cut("transactions/{tip}"))
damage("ICE0203")(
    lambda p: (p.where / "transactions" / p.tip).write_bytes(
        (p.where / "transactions" / p.history[1]).read_bytes()
    )
)
damage("ICE0204")(
    lambda p: p.log(lambda raw: raw._replace(new_arrays=raw.new_arrays[::-1]), p.history[-2])
)
damage("ICE0205")(
    lambda p: p.log(lambda raw: raw._replace(updated_arrays=raw.new_arrays[:1]), p.history[-2])
)
damage("ICE0206")(
    lambda p: p.log(lambda raw: raw._replace(new_groups=(NodeId(b"12345678"),)), p.history[-1])
)
damage("ICE0207")(lambda p: p.log(lambda raw: raw._replace(new_groups=(NodeId(b"12345678"),))))
damage("ICE0208")(
    lambda p: p.node("/g", lambda node: replace(node, user_data=node.user_data + b" "))
)
damage("ICE0209")(
    lambda p: p.log(
        lambda raw: raw._replace(
            updated_chunks=tuple(
                replace(one, chunks=one.chunks.repeat(2, axis=1)) for one in raw.updated_chunks
            )
        )
    )
)
damage("ICE0210")(
    lambda p: p.log(
        lambda raw: raw._replace(
            moved_nodes=tuple(
                MoveOperation("/elsewhere", one.to, one.node_id, one.node_type)
                for one in raw.moved_nodes
            )
        ),
        p.history[1],
    )
)
damage("ICE0211")(lambda p: (p.where / "transactions" / p.history[-1]).unlink())
damage("ICE0212")(lambda p: p.log(lambda raw: raw._replace(deleted_arrays=(NodeId(b"12345678"),))))

# Manifests.

damage("ICE0301")(lambda p: (p.where / "manifests" / p.manifest_of("/g/native")).unlink())
damage("ICE0302")(lambda p: truncate(p.where / "manifests" / p.manifest_of("/g/native")))
damage("ICE0303")(lambda p: truncate(p.where / "manifests" / p.manifest_of("/g/native"), 9))
damage("ICE0304")(
    lambda p: p.manifest("/g/native", lambda refs: None, id=ManifestId(b"123456789012"))
)
damage("ICE0305")(lambda p: p.manifest("/g/native", lambda refs: refs[1:]))
damage("ICE0306")(
    lambda p: p.manifest("/g/native", lambda refs: None, arrays=lambda arrays: (*arrays, *arrays))
)
damage("ICE0307")(lambda p: p.manifest("/g/native", lambda refs: refs[::-1]))
damage("ICE0308")(lambda p: p.manifest("/g/native", lambda refs: [refs[0], *refs]))


def edit(path: str, **fields: Any) -> Damage:
    """Change fields of the first reference."""
    return lambda p: p.manifest(path, lambda refs: vars(refs[0]).update(fields))


damage("ICE0309")(edit("/g/native", inline=b"abc"))
damage("ICE0310")(edit("/g/native", index=(0, 77)))
damage("ICE0311")(
    lambda p: p.manifest(
        "/g/native",
        lambda refs: [vars(one).update(index=one.index[:1]) or one for one in refs[::2]],
    )
)
damage("ICE0312")(edit("/g/native", length=0))
damage("ICE0313")(edit("/virtual", location=None, compressed_location=b"\x28\xb5\x2f\xfd broken"))
damage("ICE0314")(edit("/virtual", checksum_etag="abc"))
damage("ICE0315")(
    lambda p: p.manifest("/g/native", lambda refs: vars(refs[0]).update(chunk_id=refs[1].chunk_id))
)
damage("ICE0316")(
    lambda p: p.manifest("/split", lambda refs: vars(refs[1]).update(chunk_id=b"123456789012"))
)
damage("ICE0317")(lambda p: p.manifest("/g/native", lambda refs: None, arrays=lambda arrays: ()))

# Chunks.

damage("ICE0401")(lambda p: p.chunk_of("/g/native").unlink())
damage("ICE0402")(lambda p: truncate(p.chunk_of("/g/native")))
damage("ICE0403")(
    lambda p: p.chunk_of("/g/native").write_bytes(p.chunk_of("/g/native").read_bytes() + b"x")
)
damage("ICE0404")(lambda p: (p.where / "chunks" / str(ChunkId(b"123456789012"))).write_bytes(b"x"))
damage("ICE0405")(lambda p: (p.where / "chunks" / "notes.txt").write_bytes(b"x"))
damage("ICE0501")(lambda p: truncate(p.chunk_of("/g/native")))
damage("ICE0504")(
    zarr_json(
        "/g/native",
        chunk_grid={"name": "regular", "configuration": {"chunk_shape": [10**6, 10**6]}},
    )
)
damage("ICE0502")(
    lambda p: p.chunk_of("/later/packed").write_bytes(
        bytes(len(p.chunk_of("/later/packed").read_bytes()))
    )
)
damage("ICE0503")(zarr_json("/later/packed", codecs=[{"name": "bytes"}, {"name": "nope"}]))

# Virtual sources.

damage("ICE0601")(lambda p: p.source.unlink())
damage("ICE0602")(lambda p: truncate(p.source, 60))
damage("ICE0603")(lambda p: os.utime(p.source, (2**32, 2**32)))
damage("ICE0604")(lambda p: None)  # the copy's source is in no container
damage("ICE0605")(edit("/virtual", location="gopher://host/data.bin"))


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
    assert DAMAGES.keys() | DAMAGES_V1.keys() | of_object_stores == RULES.keys()


@pytest.mark.parametrize("spec_version", [1, 2])
def test_nothing_is_found_in_a_whole_repository(
    whole: Path, whole_v1: Path, spec_version: int
) -> None:
    assert codes(whole if spec_version == 2 else whole_v1) == {}


@pytest.mark.parametrize("code", sorted(DAMAGES))
def test_damage_is_found(code: str, whole: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole, tmp_path / "repo")
    patient = Patient(where)
    if RULES[code].level is None:
        relocated(where, patient, whole)
        assert codes(where).keys() == {"ICE0604"}
        if code == "ICE0604":
            return
    DAMAGES[code](patient)
    found = codes(where)
    assert code in found, sorted(found)
    for finding in found[code]:
        assert finding.severity == RULES[code].severity
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
    with pytest.raises(FormatError, match="not checked"):
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
    assert count > 150
