"""Makes one exact damage in a small official repository.

Files are decoded, edited as raw tables and written again in the order given: the encoders of
the package sort, and a violation of order must survive.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from icectl.format.column_writer import coordinate_tables
from icectl.format.envelope import FileType, encode_envelope
from icectl.format.kinds import Scalar, Tables
from icectl.format.manifest import decode_manifest
from icectl.format.reader import Field, Table
from icectl.format.repo import decode_raw_repo
from icectl.format.schema import (
    CHUNK_REF,
    MANIFEST,
    REPO,
    SNAPSHOT,
    TRANSACTION_LOG,
    RawArrayManifest,
    RawArrayUpdatedChunks,
    RawManifest,
    RawSnapshot,
    RawTransactionLog,
)
from icectl.format.snapshot import decode_snapshot
from icectl.format.transaction_log import decode_transaction_log
from icectl.format.writer import Writer
from icectl.model.manifest import RefKind
from icectl.model.snapshot import ArrayNodeData, NodeSnapshot
from tests.official import ic, zarr
from tests.official.histories import commit, create

LAST_MODIFIED = 2**31
"""Later than any file of this test was modified."""


def build(where: Path, spec_version: int = 2) -> ic.Repository:
    """Three commits with every kind of reference, a move, a tag, a deleted tag and a branch."""
    source = Path(f"{where}.virtual").absolute()
    source.mkdir(parents=True)
    (source / "data.bin").write_bytes(bytes(range(64)))
    prefix = f"file://{source}/"
    splitting = ic.ManifestSplittingConfig.from_dict(
        {ic.ManifestSplitCondition.name_matches("^split$"): {ic.ManifestSplitDimCondition.Any(): 2}}
    )
    repo = create(
        where,
        spec_version,
        inline_chunk_threshold_bytes=16,
        manifest=ic.ManifestConfig(splitting=splitting),
        virtual_chunk_containers={
            prefix: ic.VirtualChunkContainer(prefix, ic.local_filesystem_store(str(source)))
        },
    )
    plain: dict[str, Any] = {"dtype": "i8", "compressors": None, "fill_value": 0}
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    native = root.create_array(
        "g/native", shape=(16, 8), chunks=(4, 4), dimension_names=("y", "x"), **plain
    )
    native[...] = np.arange(128).reshape(16, 8)
    root.create_array("packed", shape=(64,), chunks=(32,), dtype="i8")[:] = np.arange(64) % 7
    root.create_array("inline", shape=(4,), chunks=(2,), **plain)[:] = 1
    root.create_array("split", shape=(32,), chunks=(8,), **plain)[:] = np.arange(32)
    root.create_array("virtual", shape=(16,), chunks=(4,), dtype="u1", compressors=None)
    moment = zarr_time(LAST_MODIFIED)
    refs = [
        ic.VirtualChunkSpec([i], f"{prefix}data.bin", 4 * i, 4, last_updated_at_checksum=moment)
        for i in range(4)
    ]
    assert session.store.set_virtual_refs("virtual", refs) is None
    session.commit("arrays", metadata={"a": 1, "b": "two"})
    with commit(repo, "second", metadata={"a": 2}) as root:
        root["g/native"][:4, :4] = -1
        root["g"].attrs["note"] = "changed"
        root.create_group("later")
        del root["inline"]
    if spec_version >= 2:
        moving = repo.rearrange_session("main")
        moving.move("/packed", "/later/packed")
        moving.commit("moved")
    repo.create_tag("gone", repo.lookup_branch("main"))
    repo.delete_tag("gone")
    repo.create_tag("kept", repo.lookup_branch("main"))
    repo.create_tag("other", repo.lookup_branch("main"))
    repo.create_branch("dev", repo.lookup_branch("main"))
    with commit(repo, "last") as root:
        root["split"][:8] = 7
    return repo


def zarr_time(seconds: int) -> Any:
    import datetime

    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


class Patient:
    """A copy of the repository, and tools to hurt it."""

    def __init__(self, where: Path) -> None:
        self.where = where
        self.spec_version = 2 if (where / "repo").exists() else 1
        repo = ic.Repository.open(ic.local_filesystem_storage(str(where)))
        self.history = [info.id for info in repo.ancestry(branch="main")]
        """Newest first."""
        self.tip = self.history[0]

    def write(self, path: str, table: Table, raw: Any, kind: FileType) -> None:
        data = encode_envelope(Writer().write_root(table, raw), kind, self.spec_version)
        (self.where / path).write_bytes(data)

    def repo(self, change: Callable[[Any], Any], table: Table = REPO) -> None:
        raw, _ = decode_raw_repo((self.where / "repo").read_bytes())
        self.write("repo", table, change(raw), FileType.REPO_INFO)

    def snapshot(
        self, change: Callable[[Any], Any], snapshot_id: str | None = None, table: Table = SNAPSHOT
    ) -> None:
        path = f"snapshots/{snapshot_id or self.tip}"
        found = decode_snapshot((self.where / path).read_bytes())
        raw = RawSnapshot(**{name: getattr(found, name) for name in RawSnapshot._fields})
        self.write(path, table, change(raw), FileType.SNAPSHOT)

    def node(
        self,
        path: str,
        change: Callable[[NodeSnapshot], NodeSnapshot],
        snapshot_id: str | None = None,
    ) -> None:
        self.snapshot(
            lambda raw: raw._replace(
                nodes=tuple(change(node) if node.path == path else node for node in raw.nodes)
            ),
            snapshot_id,
        )

    def array(self, path: str, snapshot_id: str | None = None, **changes: Any) -> None:
        self.node(
            path,
            lambda node: replace(node, node_data=replace(node.node_data, **changes)),
            snapshot_id,
        )

    def find(self, path: str, snapshot_id: str | None = None) -> NodeSnapshot:
        data = (self.where / "snapshots" / (snapshot_id or self.tip)).read_bytes()
        return next(node for node in decode_snapshot(data).nodes if node.path == path)

    def log(
        self,
        change: Callable[[Any], Any],
        snapshot_id: str | None = None,
        table: Table = TRANSACTION_LOG,
    ) -> None:
        path = f"transactions/{snapshot_id or self.tip}"
        found = decode_transaction_log((self.where / path).read_bytes())
        raw = RawTransactionLog(
            **{name: getattr(found, name) for name in RawTransactionLog._fields}
        )
        raw = change(raw)
        chunks = tuple(
            RawArrayUpdatedChunks(array.node_id, coordinate_tables(array.chunks))
            for array in raw.updated_chunks
        )
        self.write(path, table, raw._replace(updated_chunks=chunks), FileType.TRANSACTION_LOG)

    def manifest_of(self, path: str, place: int = 0) -> str:
        data = self.find(path).node_data
        assert isinstance(data, ArrayNodeData)
        return str(data.manifests[place].object_id)

    def manifest(self, path: str, change: Callable[[list[Any]], Any], **fields: Any) -> None:
        """Edit the references of an array's (first) manifest; `fields` replace the manifest's."""
        name = f"manifests/{self.manifest_of(path)}"
        manifest = decode_manifest((self.where / name).read_bytes())
        arrays = []
        for array in manifest.arrays:
            refs = [_reference(array.refs, row) for row in range(len(array.refs))]
            refs = change(refs) or refs
            arrays.append(RawArrayManifest(array.node_id, _write_references(refs), array.extra))
        values = {
            "id": manifest.id,
            "arrays": tuple(arrays),
            "location_dictionary": manifest.location_dictionary,
            "compression_algorithm": manifest.compression_algorithm,
            "extra": manifest.extra,
        } | fields
        if callable(values["arrays"]):
            values["arrays"] = values["arrays"](tuple(arrays))
        self.write(name, MANIFEST, RawManifest(**values), FileType.MANIFEST)

    def chunk_of(self, path: str) -> Path:
        manifest = decode_manifest((self.where / "manifests" / self.manifest_of(path)).read_bytes())
        from icectl.model.ids import ChunkId

        return self.where / "chunks" / str(ChunkId(manifest.arrays[0].refs.chunk_id[0].tobytes()))

    @property
    def source(self) -> Path:
        return Path(f"{self.where}.virtual") / "data.bin"


def _reference(refs: Any, row: int) -> SimpleNamespace:
    kind = RefKind(int(refs.kind[row]))
    content = refs.content[row]
    last_modified = refs.checksum_last_modified
    return SimpleNamespace(
        index=tuple(refs.coordinates[row].tolist()),
        inline=content if kind is RefKind.INLINE else None,
        offset=int(refs.offset[row]),
        length=int(refs.length[row]),
        chunk_id=refs.chunk_id[row].tobytes() if kind is RefKind.NATIVE else None,
        location=content.decode() if kind is RefKind.VIRTUAL else None,
        checksum_etag=None,
        checksum_last_modified=0 if last_modified is None else int(last_modified[row]),
        compressed_location=content if kind is RefKind.VIRTUAL_COMPRESSED else None,
        extra=None,
    )


def _write_references(refs: list[Any]) -> Callable[[Writer, int], None]:
    return lambda writer, position: Tables(CHUNK_REF).write(writer, position, tuple(refs))


def with_new_field(table: Table) -> Table:
    """The table as a newer version of the format might have it."""
    return Table(
        table.name,
        table.build,
        [*table.fields, Field("new", Scalar("I"))],
        take=lambda value: [*table.take(value), 7],
    )


def copied_with_source(built: Path, destination: Path) -> Path:
    """A copy, with a copy of its virtual source beside it."""
    shutil.copytree(built, destination)
    shutil.copytree(f"{built}.virtual", f"{destination}.virtual")
    return destination
