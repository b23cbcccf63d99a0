"""The tables of the specification; a test compares them with `fbs/`.

`build` receives the fields in order. If the model differs from the file (ids for indexes, columns
for tables), the table is read into a named tuple, which the module of that kind of file converts
to the model.
"""

from __future__ import annotations

from collections import namedtuple

from icectl.format.kinds import (
    Bytes,
    Scalar,
    Scalars,
    Span,
    String,
    Strings,
    Struct,
    Structs,
    TableField,
    Tables,
    Union,
    object_id,
)
from icectl.format.reader import Field, Kind, Table
from icectl.model import repo, snapshot
from icectl.model.ids import ChunkId, ManifestId, NodeId, SnapshotId
from icectl.model.transaction_log import MoveOperation
from icectl.model.values import MetadataItem


def _fields(**kinds: Kind | tuple[Kind]) -> list[Field]:
    """`name=kind`, or `name=(kind,)` for a required field."""
    return [
        Field(
            name.rstrip("_"), kind[0] if isinstance(kind, tuple) else kind, isinstance(kind, tuple)
        )
        for name, kind in kinds.items()
    ]


SNAPSHOT_ID = object_id(SnapshotId, 12)
MANIFEST_ID = object_id(ManifestId, 12)
NODE_ID = object_id(NodeId, 8)

METADATA_ITEM = Table("MetadataItem", MetadataItem, _fields(name=(String(),), value=(Bytes(),)))

# repo.fbs

RawRef = namedtuple("RawRef", "name snapshot_index")
RawSnapshotInfo = namedtuple(
    "RawSnapshotInfo",
    "id parent_offset flushed_at message metadata pruned_ancestor_tx_logs",
)
RawRepo = namedtuple(
    "RawRepo",
    "spec_version tags branches deleted_tags snapshots status metadata latest_updates "
    "repo_before_updates config enabled_feature_flags disabled_feature_flags extra",
)

REF = Table("Ref", RawRef, _fields(name=(String(),), snapshot_index=Scalar("I")))
SNAPSHOT_INFO = Table(
    "SnapshotInfo",
    RawSnapshotInfo,
    _fields(
        id=(SNAPSHOT_ID,),
        parent_offset=Scalar("i"),
        flushed_at=Scalar("Q"),
        message=(String(),),
        metadata=Tables(METADATA_ITEM),
        pruned_ancestor_tx_logs=Structs(SNAPSHOT_ID),
    ),
)
REPO_STATUS = Table(
    "RepoStatus",
    repo.RepoStatus,
    _fields(availability=Scalar("B"), set_at=Scalar("Q"), limited_availability_reason=String()),
)
UPDATE_TYPES = (
    Table("RepoInitializedUpdate", repo.RepoInitializedUpdate, ()),
    Table(
        "RepoMigratedUpdate",
        repo.RepoMigratedUpdate,
        _fields(from_version=Scalar("B"), to_version=Scalar("B")),
    ),
    Table("ConfigChangedUpdate", repo.ConfigChangedUpdate, ()),
    Table("MetadataChangedUpdate", repo.MetadataChangedUpdate, ()),
    Table("TagCreatedUpdate", repo.TagCreatedUpdate, _fields(name=(String(),))),
    Table(
        "TagDeletedUpdate",
        repo.TagDeletedUpdate,
        _fields(name=(String(),), previous_snap_id=(SNAPSHOT_ID,)),
    ),
    Table("BranchCreatedUpdate", repo.BranchCreatedUpdate, _fields(name=(String(),))),
    Table(
        "BranchDeletedUpdate",
        repo.BranchDeletedUpdate,
        _fields(name=(String(),), previous_snap_id=(SNAPSHOT_ID,)),
    ),
    Table(
        "BranchResetUpdate",
        repo.BranchResetUpdate,
        _fields(name=(String(),), previous_snap_id=(SNAPSHOT_ID,)),
    ),
    Table(
        "NewCommitUpdate",
        repo.NewCommitUpdate,
        _fields(branch=(String(),), new_snap_id=(SNAPSHOT_ID,)),
    ),
    Table(
        "CommitAmendedUpdate",
        repo.CommitAmendedUpdate,
        _fields(branch=(String(),), previous_snap_id=(SNAPSHOT_ID,), new_snap_id=(SNAPSHOT_ID,)),
    ),
    Table(
        "NewDetachedSnapshotUpdate",
        repo.NewDetachedSnapshotUpdate,
        _fields(new_snap_id=(SNAPSHOT_ID,)),
    ),
    Table("GCRanUpdate", repo.GCRanUpdate, ()),
    Table("ExpirationRanUpdate", repo.ExpirationRanUpdate, ()),
    Table(
        "FeatureFlagChangedUpdate",
        repo.FeatureFlagChangedUpdate,
        _fields(id=Scalar("H"), new_value=Scalar("?", False), is_set=Scalar("?", False)),
    ),
    Table(
        "RepoStatusChangedUpdate",
        repo.RepoStatusChangedUpdate,
        _fields(status=TableField(REPO_STATUS)),
    ),
)
UPDATE = Table(
    "Update",
    repo.Update,
    _fields(
        update_type=(Union(UPDATE_TYPES, repo.UnknownUpdate),),
        updated_at=Scalar("Q"),
        backup_path=String(),
    ),
)
REPO = Table(
    "Repo",
    RawRepo,
    _fields(
        spec_version=Scalar("B"),
        tags=(Tables(REF),),
        branches=(Tables(REF),),
        deleted_tags=(Strings(),),
        snapshots=(Tables(SNAPSHOT_INFO),),
        status=(TableField(REPO_STATUS),),
        metadata=Tables(METADATA_ITEM),
        latest_updates=(Tables(UPDATE),),
        repo_before_updates=String(),
        config=Bytes(),
        enabled_feature_flags=Scalars("H"),
        disabled_feature_flags=Scalars("H"),
        extra=Bytes(),
    ),
)

# snapshot.fbs

RawSnapshot = namedtuple(
    "RawSnapshot",
    "id parent_id nodes flushed_at message metadata manifest_files manifest_files_v2 extra",
)

_DIMENSION_SHAPE = Struct(
    "QQ", 8, snapshot.DimensionShape, lambda value: (value.array_length, value.chunk_length)
)
_CHUNK_INDEX_RANGE = Struct(
    "II", 4, snapshot.ChunkIndexRange, lambda value: (value.from_, value.to)
)
_MANIFEST_FILE_INFO = Struct(
    "12s4xQI4x",
    8,
    lambda object_id, size, refs: snapshot.ManifestFileInfo(ManifestId(object_id), size, refs),
    lambda value: (value.id, value.size_bytes, value.num_chunk_refs),
)
DIMENSION_SHAPE_V2 = Table(
    "DimensionShapeV2",
    snapshot.DimensionShapeV2,
    _fields(array_length=Scalar("Q"), num_chunks=Scalar("I")),
)
DIMENSION_NAME = Table(
    "DimensionName", lambda name: name, _fields(name=String()), take=lambda name: (name,)
)
MANIFEST_REF = Table(
    "ManifestRef",
    snapshot.ManifestRef,
    _fields(object_id=(MANIFEST_ID,), extents=(Structs(_CHUNK_INDEX_RANGE),)),
)
ARRAY_NODE_DATA = Table(
    "ArrayNodeData",
    snapshot.ArrayNodeData,
    _fields(
        shape=(Structs(_DIMENSION_SHAPE),),
        dimension_names=Tables(DIMENSION_NAME),
        manifests=(Tables(MANIFEST_REF),),
        shape_v2=Tables(DIMENSION_SHAPE_V2),
    ),
)
GROUP_NODE_DATA = Table("GroupNodeData", snapshot.GroupNodeData, ())
NODE_SNAPSHOT = Table(
    "NodeSnapshot",
    snapshot.NodeSnapshot,
    _fields(
        id=(NODE_ID,),
        path=(String(),),
        user_data=(Bytes(),),
        node_data=(Union((ARRAY_NODE_DATA, GROUP_NODE_DATA), snapshot.UnknownNodeData),),
        extra=Bytes(),
    ),
)
MANIFEST_FILE_INFO_V2 = Table(
    "ManifestFileInfoV2",
    snapshot.ManifestFileInfo,
    # The specification demands the id but does not mark it as required.
    _fields(id=(MANIFEST_ID,), size_bytes=Scalar("Q"), num_chunk_refs=Scalar("I"), extra=Bytes()),
)
SNAPSHOT = Table(
    "Snapshot",
    RawSnapshot,
    _fields(
        id=(SNAPSHOT_ID,),
        parent_id=SNAPSHOT_ID,
        nodes=(Tables(NODE_SNAPSHOT),),
        flushed_at=Scalar("Q"),
        message=(String(),),
        metadata=(Tables(METADATA_ITEM),),
        manifest_files=(Structs(_MANIFEST_FILE_INFO),),
        manifest_files_v2=Tables(MANIFEST_FILE_INFO_V2),
        extra=Bytes(),
    ),
)

# transaction_log.fbs

RawArrayUpdatedChunks = namedtuple("RawArrayUpdatedChunks", "node_id chunks")
RawTransactionLog = namedtuple(
    "RawTransactionLog",
    "id new_groups new_arrays deleted_groups deleted_arrays updated_arrays updated_groups "
    "updated_chunks moved_nodes extra",
)

CHUNK_INDICES = Table("ChunkIndices", tuple, _fields(coords=(Scalars("I"),)))
ARRAY_UPDATED_CHUNKS = Table(
    "ArrayUpdatedChunks",
    RawArrayUpdatedChunks,
    _fields(node_id=(NODE_ID,), chunks=(Span(),)),
)
MOVE_OPERATION = Table(
    "MoveOperation",
    MoveOperation,
    # All four are mandatory but not marked as required. Writers omit the type of a group, because
    # it is the default.
    _fields(from_=(String(),), to=(String(),), node_id=(NODE_ID,), node_type=Scalar("B")),
)
TRANSACTION_LOG = Table(
    "TransactionLog",
    RawTransactionLog,
    _fields(
        id=(SNAPSHOT_ID,),
        new_groups=(Structs(NODE_ID),),
        new_arrays=(Structs(NODE_ID),),
        deleted_groups=(Structs(NODE_ID),),
        deleted_arrays=(Structs(NODE_ID),),
        updated_arrays=(Structs(NODE_ID),),
        updated_groups=(Structs(NODE_ID),),
        updated_chunks=(Tables(ARRAY_UPDATED_CHUNKS),),
        moved_nodes=Tables(MOVE_OPERATION),
        extra=Bytes(),
    ),
)

# manifest.fbs

# Read only as columns: `build` is never called.
CHUNK_REF = Table(
    "ChunkRef",
    tuple,
    _fields(
        index=(Scalars("I"),),
        inline=Bytes(),
        offset=Scalar("Q"),
        length=Scalar("Q"),
        chunk_id=object_id(ChunkId, 12),
        location=String(),
        checksum_etag=String(),
        checksum_last_modified=Scalar("I"),
        compressed_location=Bytes(),
        extra=Bytes(),
    ),
)
RawArrayManifest = namedtuple("RawArrayManifest", "node_id refs extra")
RawManifest = namedtuple("RawManifest", "id arrays location_dictionary compression_algorithm extra")

ARRAY_MANIFEST = Table(
    "ArrayManifest",
    RawArrayManifest,
    _fields(node_id=(NODE_ID,), refs=(Span(),), extra=Bytes()),
)
MANIFEST = Table(
    "Manifest",
    RawManifest,
    _fields(
        id=(MANIFEST_ID,),
        arrays=(Tables(ARRAY_MANIFEST),),
        location_dictionary=Bytes(),
        compression_algorithm=Scalar("B", 1),
        extra=Bytes(),
    ),
)
