"""Decode and encode the repo info file, which stores indexes instead of snapshot ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from icectl.errors import FormatError
from icectl.format.envelope import FileType, decode_flatbuffers_envelope, encode_envelope
from icectl.format.kinds import Span
from icectl.format.reader import Field, Reader, Table
from icectl.format.schema import REPO, SNAPSHOT_INFO, UPDATE, RawRef, RawRepo, RawSnapshotInfo
from icectl.format.writer import Writer, refuse_unknown
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    Ref,
    RepoInfo,
    SnapshotInfo,
    SnapshotInfoColumns,
    Update,
    ids_of,
)
from icectl.model.values import UnknownField

FEW_SNAPSHOTS = 4096
"""More of them are read as columns; importing numpy takes longer than to read so few."""


@lru_cache(maxsize=1)  # a change reads the file again, and usually it has not changed
def decode_repo(data: bytes) -> RepoInfo:
    return RepoFile(data).decode_all()


def decode_raw_repo(data: bytes) -> tuple[RawRepo, tuple[UnknownField, ...]]:
    """Return the tables of the file, for checks that look for invalid indexes."""
    payload = decode_flatbuffers_envelope(data, FileType.REPO_INFO).payload
    reader = Reader(payload, file_size=len(data))
    raw: RawRepo = reader.read_root(REPO)
    return raw, reader.unknown_fields


def _with_spans(*names: str) -> Table:
    """The same table, of whose long lists with these names only the positions are read.

    Functions write them.
    """
    fields = [
        Field(field.name, Span(), field.required) if field.name in names else field
        for field in REPO.fields
    ]
    return Table(REPO.name, RawRepo, fields)


_SHORT_REPO = _with_spans("snapshots", "latest_updates")


@dataclass(frozen=True, slots=True)
class RefTarget:
    id: SnapshotId
    parent_id: SnapshotId | None


class RepoFile:
    """A repo info file, of which snapshots and updates are decoded when they are asked for.

    There are a thousand updates in most backups, and most readers need one of them, or none.
    """

    def __init__(self, data: bytes) -> None:
        payload = decode_flatbuffers_envelope(data, FileType.REPO_INFO).payload
        self._reader = Reader(payload, file_size=len(data))
        self._raw: RawRepo = self._reader.read_root(_SHORT_REPO)

    @property
    def repo_before_updates(self) -> str | None:
        name: str | None = self._raw.repo_before_updates
        return name

    @property
    def deleted_tags(self) -> tuple[str, ...]:
        names: tuple[str, ...] = self._raw.deleted_tags
        return names

    @cached_property
    def newest_update(self) -> Update | None:
        start, count = self._raw.latest_updates
        return self._reader.read_table(UPDATE, self._reader.follow(start)) if count else None

    @cached_property
    def latest_updates(self) -> tuple[Update, ...]:
        return self._read_tables(UPDATE, *self._raw.latest_updates)

    @cached_property
    def snapshots(self) -> Sequence[SnapshotInfo]:
        start, count = self._raw.snapshots
        if count > FEW_SNAPSHOTS:
            from icectl.format.snapshot_info_columns import read_snapshot_infos

            return read_snapshot_infos(self._reader, start, count)
        entries = self._read_tables(SNAPSHOT_INFO, start, count)
        return _snapshot_infos(entries, [entry.id for entry in entries])

    @property
    def branch_names(self) -> list[str]:
        return [ref.name for ref in self._raw.branches]

    @property
    def tag_names(self) -> list[str]:
        return [ref.name for ref in self._raw.tags]

    def read_snapshot_ids(self) -> Iterator[SnapshotId]:
        """In the order of the file; of each snapshot, only the id is decoded."""
        start, count = self._raw.snapshots
        reader = self._reader
        reader.spend_elements(count, start)
        for slot in range(start, start + 4 * count, 4):
            position = reader.follow(slot)
            at = position + reader.places(SNAPSHOT_INFO, position)[0]
            yield SnapshotId(bytes(reader.data[at : at + 12]))

    def branch_targets(self) -> dict[str, RefTarget]:
        """The target of each branch; of the snapshots, only these are read."""
        return {ref.name: self._target(ref) for ref in self._raw.branches}

    def tag_targets(self) -> dict[str, RefTarget]:
        return {ref.name: self._target(ref) for ref in self._raw.tags}

    @property
    def branches(self) -> tuple[Ref, ...]:
        return _refs(self._raw.branches, self._ids, "branch")

    @property
    def tags(self) -> tuple[Ref, ...]:
        return _refs(self._raw.tags, self._ids, "tag")

    def decode_all(self) -> RepoInfo:
        raw = self._raw._replace(latest_updates=self.latest_updates)
        return _repo_info(raw, self.snapshots, self._ids, self._reader.unknown_fields)

    @cached_property
    def _ids(self) -> Sequence[SnapshotId]:
        return ids_of(self.snapshots)

    def _read_tables(self, table: Table, start: int, count: int) -> tuple[Any, ...]:
        self._reader.spend_elements(count, start)
        follow, read_table = self._reader.follow, self._reader.read_table
        return tuple(read_table(table, follow(slot)) for slot in range(start, start + 4 * count, 4))

    def _target(self, ref: RawRef) -> RefTarget:
        found = self._entry(ref.snapshot_index)
        is_root = found.parent_offset == -1
        return RefTarget(found.id, None if is_root else self._entry(found.parent_offset).id)

    def _entry(self, index: int) -> RawSnapshotInfo:
        start, count = self._raw.snapshots
        if not 0 <= index < count:
            raise FormatError(f"a ref points to snapshot number {index}, but there are {count}")
        position = self._reader.follow(start + 4 * index)
        found: RawSnapshotInfo = self._reader.read_table(SNAPSHOT_INFO, position)
        return found


def repo_info(raw: RawRepo, unknown_fields: tuple[UnknownField, ...]) -> RepoInfo:
    ids = [entry.id for entry in raw.snapshots]
    return _repo_info(raw, _snapshot_infos(raw.snapshots, ids), ids, unknown_fields)


def _repo_info(
    raw: RawRepo,
    snapshots: Sequence[SnapshotInfo],
    ids: Sequence[SnapshotId],
    unknown_fields: tuple[UnknownField, ...],
) -> RepoInfo:
    return RepoInfo(
        spec_version=raw.spec_version,
        tags=_refs(raw.tags, ids, "tag"),
        branches=_refs(raw.branches, ids, "branch"),
        deleted_tags=raw.deleted_tags,
        snapshots=snapshots,
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


def _snapshot_infos(
    entries: Sequence[RawSnapshotInfo], ids: Sequence[SnapshotId]
) -> tuple[SnapshotInfo, ...]:
    if len(set(ids)) < len(ids):
        raise FormatError("the repo info lists a snapshot twice")
    return tuple(SnapshotInfo(entry.id, _parent(entry, ids), *entry[2:]) for entry in entries)


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
        raise parent_error(entry.id, offset, len(ids))
    return ids[offset]


def parent_error(snapshot_id: SnapshotId, offset: int, count: int) -> FormatError:
    return FormatError(
        f"the parent of snapshot {snapshot_id} is number {offset} of {count} snapshots"
    )


def encode_repo(info: RepoInfo) -> bytes:
    """Encode a repo info, with every list in the order of the specification."""
    refuse_unknown(info.unknown_fields, "repo info")
    snapshots, index, table = _raw_snapshots(info.snapshots)
    raw = RawRepo(
        spec_version=info.spec_version,
        tags=_raw_refs(info.tags, index),
        branches=_raw_refs(info.branches, index),
        deleted_tags=tuple(sorted(info.deleted_tags, key=str.encode)),
        snapshots=snapshots,
        status=info.status,
        metadata=info.metadata,
        latest_updates=info.latest_updates,
        repo_before_updates=info.repo_before_updates,
        config=info.config,
        enabled_feature_flags=_sorted(info.enabled_feature_flags),
        disabled_feature_flags=_sorted(info.disabled_feature_flags),
        extra=info.extra,
    )
    return encode_envelope(Writer().write_root(table, raw), FileType.REPO_INFO, info.spec_version)


def _raw_snapshots(
    snapshots: Sequence[SnapshotInfo],
) -> tuple[Any, Mapping[SnapshotId, int], Table]:
    """What to write, the number of each snapshot in it, and the table that is written with it."""
    if isinstance(snapshots, SnapshotInfoColumns) and snapshots.is_sorted:
        from icectl.format.column_writer import snapshot_info_tables

        return snapshot_info_tables(snapshots), snapshots.rows, _with_spans("snapshots")
    ordered = sorted(snapshots, key=lambda entry: entry.id)
    index = {entry.id: number for number, entry in enumerate(ordered)}
    entries = tuple(
        RawSnapshotInfo(
            entry.id,
            -1 if entry.parent_id is None else index[entry.parent_id],
            entry.flushed_at,
            entry.message,
            entry.metadata,
            entry.pruned_ancestor_tx_logs or None,
        )
        for entry in ordered
    )
    return entries, index, REPO


def _raw_refs(refs: Sequence[Ref], index: Mapping[SnapshotId, int]) -> tuple[RawRef, ...]:
    return tuple(
        RawRef(ref.name, index[ref.snapshot_id])
        for ref in sorted(refs, key=lambda ref: ref.name.encode())
    )


def _sorted(flags: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if flags is None else tuple(sorted(flags))
