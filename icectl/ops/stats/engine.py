"""What an engine of `stats` is asked for, and the one of a single process.

Nothing here needs arrays yet: a command reads and decompresses its first manifest while the
array library is still being loaded on another thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Protocol

from icectl.ops.stats.usage import Usage
from icectl.pipeline.progress import Progress
from icectl.pipeline.readers import count_readers
from icectl.repository.repository import Repository
from icectl.storage.bounded import map_on_threads

if TYPE_CHECKING:
    import numpy as np

    from icectl.model.ids import ManifestId
    from icectl.ops.stats.gathering import Gathered
    from icectl.ops.stats.manifest_sums import ManifestSums
    from icectl.repository.containers import Containers

BITS = 64
"""Of one column of masks."""
LOCAL_READERS = 2
REMOTE_READERS = 8
REFERENCES_AT_ONCE = 2_000_000
"""References in memory at once, unless one manifest alone has more."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which columns the rows need beside `array` and `length`."""

    num_masks: int
    by_snapshot: bool

    @property
    def reductions(self) -> dict[str, np.ufunc]:
        """How the values of one chunk object are joined."""
        import numpy as np

        values: dict[str, np.ufunc] = {"array": np.minimum}
        values |= dict.fromkeys(mask_names(self.num_masks), np.bitwise_or)
        if self.by_snapshot:
            values |= {"first": np.minimum, "last": np.maximum}
        return values


def mask_names(count: int) -> list[str]:
    return [f"mask_{word}" for word in range(count)]


def mask_words(mask: int, count: int) -> list[int]:
    return [mask >> (BITS * word) & (2**BITS - 1) for word in range(count)]


class Engine(Protocol):
    @property
    def name(self) -> str: ...

    def gather(
        self,
        repository: Repository,
        usage: Usage,
        wanted: Wanted,
        containers: Containers,
        progress: Progress,
    ) -> Gathered:
        """`containers` are those of virtual chunks."""


class LocalEngine:
    name = "local"

    def gather(
        self,
        repository: Repository,
        usage: Usage,
        wanted: Wanted,
        containers: Containers,
        progress: Progress,
    ) -> Gathered:
        sums = _read_sums(repository, usage, progress)
        first = list(islice(sums, 1))
        from icectl.ops.stats.gathering import gather_sums

        return gather_sums(chain(first, sums), usage, wanted, containers)


def _read_sums(repository: Repository, usage: Usage, progress: Progress) -> Iterator[ManifestSums]:
    workers = count_readers(
        repository.storage,
        (use.num_chunk_refs for use in usage.manifests.values()),
        local=LOCAL_READERS,
        remote=REMOTE_READERS,
        at_once=REFERENCES_AT_ONCE,
    )
    with progress.phase("reading manifests", len(usage.manifests)) as counter:
        for sums in map_on_threads(
            lambda manifest_id: read_sums(repository, manifest_id),
            usage.manifests,
            workers=workers,
            ahead=workers,
        ):
            yield sums
            counter.advance()


def read_sums(repository: Repository, manifest_id: ManifestId) -> ManifestSums:
    manifest = repository.read_manifest(manifest_id, with_coordinates=False)
    from icectl.ops.stats.manifest_sums import sum_manifest

    return sum_manifest(manifest)
