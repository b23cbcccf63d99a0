"""What Hypothesis generates for each kind of file."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from icectl.model import repo as r
from icectl.model import snapshot as s
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.manifest import ArrayManifest, ChunkRefs, Manifest, RefKind, Spans
from icectl.model.transaction_log import ArrayUpdatedChunks, MoveOperation, TransactionLog
from icectl.model.values import MetadataItem

text = st.text(max_size=12).filter(lambda value: not any("\ud800" <= c <= "\udfff" for c in value))
u64 = st.integers(0, 2**64 - 1)
u32 = st.integers(0, 2**32 - 1)
snapshot_ids = st.binary(min_size=12, max_size=12).map(SnapshotId)
manifest_ids = st.binary(min_size=12, max_size=12).map(ManifestId)
node_ids = st.binary(min_size=8, max_size=8).map(NodeId)
items = st.builds(MetadataItem, text, st.binary(max_size=9))
metadata = st.lists(items, max_size=3, unique_by=lambda item: item.name).map(
    lambda found: tuple(sorted(found, key=lambda item: item.name.encode()))
)
paths = st.lists(text.filter(lambda part: part and "/" not in part), max_size=3).map(
    lambda parts: "/" + "/".join(parts)
)
status = st.builds(r.RepoStatus, st.integers(0, 2), u64, st.none() | text)
update_types = st.one_of(
    st.builds(r.RepoInitializedUpdate),
    st.builds(r.RepoMigratedUpdate, st.integers(0, 255), st.integers(0, 255)),
    st.builds(r.TagDeletedUpdate, text, snapshot_ids),
    st.builds(r.BranchResetUpdate, text, snapshot_ids),
    st.builds(r.CommitAmendedUpdate, text, snapshot_ids, snapshot_ids),
    st.builds(r.GCRanUpdate),
    st.builds(r.FeatureFlagChangedUpdate, st.integers(0, 65535), st.booleans(), st.booleans()),
    st.builds(r.RepoStatusChangedUpdate, st.none() | status),
)
FAST = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))


@st.composite
def repos(draw: st.DrawFn) -> r.RepoInfo:
    ids = sorted(draw(st.lists(snapshot_ids, min_size=1, max_size=5, unique=True)))
    pick = st.sampled_from(ids)
    refs = st.lists(st.builds(r.Ref, text, pick), max_size=3, unique_by=lambda ref: ref.name).map(
        lambda found: tuple(sorted(found, key=lambda ref: ref.name.encode()))
    )
    logs = st.none() | st.lists(snapshot_ids, min_size=1, max_size=3).map(tuple)
    flags = st.none() | st.lists(st.integers(0, 65535), max_size=3).map(
        lambda found: tuple(sorted(found))
    )
    return r.RepoInfo(
        spec_version=2,
        tags=draw(refs),
        branches=draw(refs),
        deleted_tags=tuple(sorted(draw(st.lists(text, max_size=3)), key=str.encode)),
        snapshots=tuple(
            r.SnapshotInfo(
                one,
                draw(st.none() | pick),
                draw(u64),
                draw(text),
                draw(st.none() | metadata),
                draw(logs),
            )
            for one in ids
        ),
        status=draw(status),
        metadata=draw(st.none() | metadata),
        latest_updates=tuple(
            draw(st.lists(st.builds(r.Update, update_types, u64, st.none() | text), max_size=4))
        ),
        repo_before_updates=draw(st.none() | text),
        config=draw(st.none() | st.binary(max_size=9)),
        enabled_feature_flags=draw(flags),
        disabled_feature_flags=draw(flags),
        extra=draw(st.none() | st.binary(max_size=9)),
    )


ranges = st.builds(s.ChunkIndexRange, u32, u32)
arrays = st.builds(
    s.ArrayNodeData,
    st.lists(st.builds(s.DimensionShape, u64, u64), max_size=3).map(tuple),
    st.none() | st.lists(st.none() | text, max_size=3).map(tuple),
    st.lists(
        st.builds(s.ManifestRef, manifest_ids, st.lists(ranges, max_size=3).map(tuple)), max_size=3
    ).map(tuple),
    st.none() | st.lists(st.builds(s.DimensionShapeV2, u64, u32), max_size=3).map(tuple),
)
nodes = st.builds(
    s.NodeSnapshot,
    node_ids,
    paths,
    st.binary(max_size=20),
    arrays | st.builds(s.GroupNodeData),
    st.none() | st.binary(max_size=5),
)
snapshots = st.builds(
    s.Snapshot,
    st.sampled_from([1, 2]),
    snapshot_ids,
    st.none() | snapshot_ids,
    st.lists(nodes, max_size=4, unique_by=lambda node: node.path).map(
        lambda found: tuple(sorted(found, key=lambda node: node.path.encode()))
    ),
    u64,
    text,
    metadata,
    st.lists(st.builds(s.ManifestFileInfo, manifest_ids, u64, u32), max_size=3).map(
        lambda found: tuple(sorted(found, key=lambda info: info.id))
    ),
    st.none()
    | st.lists(
        st.builds(s.ManifestFileInfo, manifest_ids, u64, u32, st.none() | st.binary(max_size=4)),
        max_size=3,
    ).map(lambda found: tuple(sorted(found, key=lambda info: info.id))),
    st.none() | st.binary(max_size=9),
)


@st.composite
def coordinates(draw: st.DrawFn) -> np.ndarray:
    dimensions = draw(st.integers(0, 4))
    count = draw(st.integers(1, 1 if dimensions == 0 else 6))
    rows = draw(
        st.lists(
            st.tuples(*[u32] * dimensions), min_size=count, max_size=count, unique=dimensions > 0
        )
    )
    return np.array(sorted(rows), np.uint32).reshape(count, dimensions)


id_lists = st.lists(node_ids, max_size=3).map(lambda found: tuple(sorted(found)))
logs = st.builds(
    TransactionLog,
    st.sampled_from([1, 2]),
    snapshot_ids,
    *[id_lists] * 6,
    st.lists(
        st.builds(ArrayUpdatedChunks, node_ids, coordinates()),
        max_size=3,
        unique_by=lambda array: array.node_id,
    ).map(lambda found: tuple(sorted(found, key=lambda array: array.node_id))),
    st.none()
    | st.lists(
        st.builds(MoveOperation, paths, paths, node_ids, st.integers(0, 1)),
        max_size=3,
        unique_by=lambda move: move.to,
    ).map(lambda found: tuple(sorted(found, key=lambda move: s.path_sort_key(move.to)))),
    st.none() | st.binary(max_size=9),
)


@st.composite
def chunk_refs(draw: st.DrawFn) -> ChunkRefs:
    where = draw(coordinates())
    count = len(where)
    kind = np.array(draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)), np.uint8)
    data = bytearray(b"\0")

    def spans(present: np.ndarray) -> Spans:
        starts, lengths = [], []
        for there in present.tolist():
            value = draw(text).encode() if there else b""
            starts.append(len(data) if there else 0)
            lengths.append(len(value))
            data.extend(value)
        return Spans(data, np.array(starts, np.uint32), np.array(lengths, np.uint32))

    some = st.lists(st.booleans(), min_size=count, max_size=count).map(np.array)
    numbers = st.lists(u64, min_size=count, max_size=count).map(lambda v: np.array(v, np.uint64))
    ids = np.frombuffer(draw(st.binary(min_size=12 * count, max_size=12 * count)), np.uint8)
    ids = np.where((kind == RefKind.NATIVE)[:, None], ids.reshape(count, 12), 0).astype(np.uint8)
    times = np.array(draw(st.lists(u32, min_size=count, max_size=count)), np.uint32)
    etags, extras = draw(some), draw(some)
    return ChunkRefs(
        where,
        kind,
        ids,
        draw(numbers),
        draw(numbers),
        spans(kind != RefKind.NATIVE),
        spans(etags) if etags.any() else None,
        times if times.any() else None,
        spans(extras) if extras.any() else None,
    )


manifests = st.builds(
    Manifest,
    st.sampled_from([1, 2]),
    manifest_ids,
    st.lists(
        st.builds(ArrayManifest, node_ids, chunk_refs(), st.none() | st.binary(max_size=4)),
        max_size=3,
        unique_by=lambda array: array.node_id,
    ).map(lambda found: tuple(sorted(found, key=lambda array: array.node_id))),
    st.none() | st.binary(max_size=9),
    st.sampled_from([0, 1]),
    st.none() | st.binary(max_size=9),
)
