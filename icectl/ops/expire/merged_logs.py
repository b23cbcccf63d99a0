"""Transaction logs of expired ancestors in spec version 1.

A V1 snapshot cannot remember the logs of ancestors that were released, so the log of the
snapshot that continues further up takes in theirs: diffs across the gap stay right, those of
the official package too. Merging twice is the same as merging once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from icectl.errors import FormatError
from icectl.model.ids import NodeId
from icectl.model.transaction_log import ArrayUpdatedChunks, TransactionLog
from icectl.ops.diff.coordinates import CoordinateSet


def merge_transaction_logs(logs: Sequence[TransactionLog]) -> TransactionLog:
    """The last log, telling what all of them (oldest first) tell together."""
    created = _union(logs, ("new_groups", "new_arrays"))
    deleted = _union(logs, ("deleted_groups", "deleted_arrays"))
    # A node that was there before and is deleted in the end keeps what was updated in between,
    # as the official package tells it; one that no snapshot is left of is not told at all.
    passing = created & deleted
    chunks: dict[NodeId, CoordinateSet] = {}
    for log in logs:
        for array in log.updated_chunks:
            if array.node_id in passing:
                continue
            if not chunks.setdefault(array.node_id, CoordinateSet()).add(array.chunks):
                raise FormatError(
                    f"the transaction logs give chunks of the node {array.node_id} "
                    "different numbers of dimensions"
                )

    def merged(name: str, without: set[NodeId]) -> tuple[NodeId, ...]:
        return tuple(sorted(_union(logs, (name,)) - without))

    return replace(
        logs[-1],
        new_groups=merged("new_groups", deleted),
        new_arrays=merged("new_arrays", deleted),
        deleted_groups=merged("deleted_groups", created),
        deleted_arrays=merged("deleted_arrays", created),
        updated_groups=merged("updated_groups", passing),
        updated_arrays=merged("updated_arrays", passing),
        updated_chunks=tuple(
            ArrayUpdatedChunks(node_id, chunks[node_id].rows()) for node_id in sorted(chunks)
        ),
        unknown_fields=tuple(field for log in logs for field in log.unknown_fields),
    )


def _union(logs: Iterable[TransactionLog], names: Iterable[str]) -> set[NodeId]:
    return {node_id for log in logs for name in names for node_id in getattr(log, name)}
