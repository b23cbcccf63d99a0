"""How many threads read and decode manifests at once."""

from __future__ import annotations

from collections.abc import Iterable

from icectl.storage.contract import Storage

LARGE = 10_000
"""References from which decoding is array work, which runs beside other threads."""


def count_readers(
    storage: Storage, num_chunk_refs: Iterable[int], *, local: int, remote: int, at_once: int
) -> int:
    """Where a request waits, many; of small manifests on a disk one thread reads most.

    `at_once` limits the references in memory, unless one manifest alone has more.
    """
    largest = max(num_chunk_refs, default=0)
    is_local = not storage.is_object_store
    if is_local and largest < LARGE:
        return 1
    return max(1, min(local if is_local else remote, at_once // max(largest, 1)))
