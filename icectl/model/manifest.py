"""Manifests: the location of each chunk, as columns; there is no object per reference."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from icectl.model.ids import ManifestId, NodeId
from icectl.model.snapshot import ChunkIndexRange
from icectl.model.values import UnknownField

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class RefKind(enum.IntEnum):
    NATIVE = 0
    INLINE = 1
    VIRTUAL = 2
    VIRTUAL_COMPRESSED = 3
    """Virtual, with a location compressed by the manifest's dictionary."""


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """One byte string per row: `length` bytes of `data` from `start`."""

    data: bytes | bytearray
    start: NDArray[np.uint32]
    length: NDArray[np.uint32]

    def __getitem__(self, row: int) -> bytes:
        start = int(self.start[row])
        return bytes(self.data[start : start + int(self.length[row])])

    def take(self, rows: NDArray[np.intp] | slice) -> Spans:
        return Spans(self.data, self.start[rows], self.length[rows])

    def detached(self) -> Spans:
        """The same byte strings without the rest of `data`; a span at 0 stays there."""
        import numpy as np

        lengths = self.length.astype(np.int64)
        starts = np.where(self.start, np.cumsum(lengths) - lengths + 1, 0)
        return Spans(b"\0" + b"".join(self.to_list()), starts.astype(np.uint32), self.length)

    def to_list(self) -> list[bytes]:
        data = bytes(self.data)
        starts, ends = self.start.tolist(), (self.start + self.length).tolist()
        return [data[start:end] for start, end in zip(starts, ends, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class ChunkRefs:
    """The references of one array, one row each, in the order of the file."""

    coordinates: NDArray[np.uint32]
    """(n, dimensions)"""
    kind: NDArray[np.uint8]
    chunk_id: NDArray[np.uint8]
    """(n, 12); zero where the reference is not native."""
    offset: NDArray[np.uint64]
    length: NDArray[np.uint64]
    content: Spans
    """Inline: the chunk. Virtual: the location, compressed or not. Native: empty."""
    checksum_etag: Spans | None
    """None if no row has an ETag; the span of a row without one starts at 0."""
    checksum_last_modified: NDArray[np.uint32] | None
    """Seconds since 1970; None if no row has a time, 0 in a row without one."""
    extra: Spans | None
    """None if no row has extra bytes; the span of a row without any starts at 0."""

    def __len__(self) -> int:
        return len(self.kind)

    def extents(self) -> tuple[ChunkIndexRange, ...]:
        """The smallest ranges that contain every coordinate; there must be some."""
        return tuple(
            ChunkIndexRange(int(column.min()), int(column.max()) + 1)
            for column in self.coordinates.T
        )

    def take(self, rows: NDArray[np.intp] | slice) -> ChunkRefs:
        return self._mapped(lambda column: column[rows], lambda spans: spans.take(rows))

    def detached(self) -> ChunkRefs:
        """The same references without the rest of the payload."""
        return self._mapped(lambda column: column, Spans.detached)

    def _mapped(
        self, of_column: Callable[[Any], Any], of_spans: Callable[[Spans], Any]
    ) -> ChunkRefs:
        def mapped(column: Any) -> Any:
            if isinstance(column, Spans):
                return of_spans(column)
            return None if column is None else of_column(column)

        return ChunkRefs(*(mapped(getattr(self, field.name)) for field in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class ArrayManifest:
    node_id: NodeId
    refs: ChunkRefs
    extra: bytes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    spec_version: int
    """From the file's header."""
    id: ManifestId
    arrays: tuple[ArrayManifest, ...]
    location_dictionary: bytes | None = None
    compression_algorithm: int = 1
    extra: bytes | None = None
    unknown_fields: tuple[UnknownField, ...] = ()
    file_size: int = 0
    """The stored size; 0 if the manifest was not read from a file."""

    @property
    def num_chunk_refs(self) -> int:
        return sum(len(array.refs) for array in self.arrays)
