"""Decode and encode the repo info file, which stores indexes instead of snapshot ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from icectl.errors import FormatError
from icectl.format.envelope import FileType, decode_flatbuffers_envelope, encode_envelope
from icectl.format.kinds import Span
from icectl.format.reader import Field, Reader, Table
from icectl.format.schema import REPO, SNAPSHOT_INFO, UPDATE, RawRef, RawRepo, RawSnapshotInfo
from icectl.format.writer import Writer, refuse_unknown
from icectl.model.ids import SnapshotId
from icectl.model.repo import Ref, RepoInfo, SnapshotInfo, Update
from icectl.model.values import UnknownField


@lru_cache(maxsize=1)  # a change reads the file again, and usually it has not changed
def decode_repo(data: bytes) -> RepoInfo:
    return repo_info(*decode_raw_repo(data))


def decode_raw_repo(data: bytes) -> tuple[RawRepo, tuple[UnknownField, ...]]:
    """Return the tables of the file, for checks that look for invalid indexes."""
    payload = decode_flatbuffers_envelope(data, FileType.REPO_INFO).payload
    reader = Reader(payload, file_size=len(data))
    raw: RawRepo = reader.read_root(REPO)
    return raw, reader.unknown_fields


# The same table, with only the positions of its two long lists.
_SHORT_REPO = Table(
    "Repo",
    RawRepo,
    [
        Field(field.name, Span(), field.required)
        if field.name in ("snapshots", "latest_updates")
        else field
        for field in REPO.fields
    ],
)


@dataclass(frozen=True, slots=True)
class RefTarget:
    id: SnapshotId
    parent_id: SnapshotId | None


@dataclass(frozen=True, slots=True)
class RepoRefs:
    branches: Mapping[str, RefTarget]
    tags: Mapping[str, RefTarget]
    newest: Update | None
    """The newest update."""


def decode_repo_refs(data: bytes) -> RepoRefs:
    """Decode branches and tags, and only those snapshots that they point to."""
    payload = decode_flatbuffers_envelope(data, FileType.REPO_INFO).payload
    reader = Reader(payload, file_size=len(data))
    raw: RawRepo = reader.read_root(_SHORT_REPO)
    start, count = raw.snapshots

    def entry(index: int) -> RawSnapshotInfo:
        if not 0 <= index < count:
            raise FormatError(f"a ref points to snapshot number {index}, but there are {count}")
        found: RawSnapshotInfo = reader.read_table(SNAPSHOT_INFO, reader.follow(start + 4 * index))
        return found

    def target(ref: RawRef) -> RefTarget:
        found = entry(ref.snapshot_index)
        is_root = found.parent_offset == -1
        return RefTarget(found.id, None if is_root else entry(found.parent_offset).id)

    updates, num_updates = raw.latest_updates
    return RepoRefs(
        {ref.name: target(ref) for ref in raw.branches},
        {ref.name: target(ref) for ref in raw.tags},
        reader.read_table(UPDATE, reader.follow(updates)) if num_updates else None,
    )


def repo_info(raw: RawRepo, unknown_fields: tuple[UnknownField, ...]) -> RepoInfo:
    ids = [entry.id for entry in raw.snapshots]
    if len(set(ids)) < len(ids):
        raise FormatError("the repo info lists a snapshot twice")
    return RepoInfo(
        spec_version=raw.spec_version,
        tags=_refs(raw.tags, ids, "tag"),
        branches=_refs(raw.branches, ids, "branch"),
        deleted_tags=raw.deleted_tags,
        snapshots=tuple(
            SnapshotInfo(entry.id, _parent(entry, ids), *entry[2:]) for entry in raw.snapshots
        ),
        status=raw.status,
        metadata=raw.metadata,
        latest_updates=raw.latest_updates,
        repo_before_updates=raw.repo_before_updates,
        config=raw.config,
        enabled_feature_flags=raw.enabled_feature_flags,
        disabled_feature_flags=raw.disabled_feature_flags,
        extra=raw.extra,
        unknown_fields=unknown_fields,
    )


def _refs(raw: Sequence[RawRef], ids: Sequence[SnapshotId], kind: str) -> tuple[Ref, ...]:
    for ref in raw:
        if ref.snapshot_index >= len(ids):
            raise FormatError(
                f"the {kind} {ref.name!r} points to snapshot number {ref.snapshot_index} "
                f"of {len(ids)}"
            )
    return tuple(Ref(ref.name, ids[ref.snapshot_index]) for ref in raw)


def _parent(entry: RawSnapshotInfo, ids: Sequence[SnapshotId]) -> SnapshotId | None:
    offset: int = entry.parent_offset
    if offset == -1:
        return None
    if not 0 <= offset < len(ids):
        raise FormatError(
            f"the parent of snapshot {entry.id} is number {offset} of {len(ids)} snapshots"
        )
    return ids[offset]


def encode_repo(info: RepoInfo) -> bytes:
    """Encode a repo info, with every list in the order of the specification."""
    refuse_unknown(info.unknown_fields, "repo info")
    snapshots = sorted(info.snapshots, key=lambda entry: entry.id)
    index = {entry.id: number for number, entry in enumerate(snapshots)}
    raw = RawRepo(
        spec_version=info.spec_version,
        tags=_raw_refs(info.tags, index),
        branches=_raw_refs(info.branches, index),
        deleted_tags=tuple(sorted(info.deleted_tags, key=str.encode)),
        snapshots=tuple(
            RawSnapshotInfo(
                entry.id,
                -1 if entry.parent_id is None else index[entry.parent_id],
                entry.flushed_at,
                entry.message,
                entry.metadata,
                entry.pruned_ancestor_tx_logs or None,
            )
            for entry in snapshots
        ),
        status=info.status,
        metadata=info.metadata,
        latest_updates=info.latest_updates,
        repo_before_updates=info.repo_before_updates,
        config=info.config,
        enabled_feature_flags=_sorted(info.enabled_feature_flags),
        disabled_feature_flags=_sorted(info.disabled_feature_flags),
        extra=info.extra,
    )
    return encode_envelope(Writer().write_root(REPO, raw), FileType.REPO_INFO, info.spec_version)


def _raw_refs(refs: Sequence[Ref], index: dict[SnapshotId, int]) -> tuple[RawRef, ...]:
    return tuple(
        RawRef(ref.name, index[ref.snapshot_id])
        for ref in sorted(refs, key=lambda ref: ref.name.encode())
    )


def _sorted(flags: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if flags is None else tuple(sorted(flags))
