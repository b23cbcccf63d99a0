"""For each rule, a change to a small official repository that breaks it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from icectl.format.schema import SNAPSHOT
from icectl.model.ids import ChunkId, ManifestId, NodeId, SnapshotId
from icectl.model.repo import RepoStatus
from icectl.model.snapshot import ChunkIndexRange, ManifestRef
from icectl.model.transaction_log import MoveOperation
from tests.validate.damage import Patient, with_new_field

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
