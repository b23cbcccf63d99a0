"""Where the chunks of a repository are looked at: the one part of the work that can be huge.

Everything else, snapshots, logs and the names of manifests, is small enough for one process
and is the same code for every engine.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from icectl.checks.manifest import ManifestClaim
from icectl.pipeline.listings import Listings
from icectl.pipeline.objects import GarbageSet
from icectl.pipeline.progress import Progress
from icectl.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class Sweep:
    """What decides which chunks go."""

    storage: Storage
    claims: Collection[ManifestClaim]
    """The manifests that are kept."""
    cutoff: int
    known_missing: frozenset[str]
    with_ends: bool
    """Whether the storage tells sizes for free, so that files that are too short are found."""


@dataclass(frozen=True, slots=True)
class SweptChunks:
    garbage: GarbageSet
    num_listed: int
    foreign: tuple[str, ...]


class Engine(Protocol):
    @property
    def name(self) -> str: ...

    def sweep_chunks(self, sweep: Sweep, listings: Listings, progress: Progress) -> SweptChunks:
        """The chunks that no kept manifest refers to; `FormatError` where anything is amiss."""

    def spare_chunks(
        self,
        garbage: GarbageSet,
        storage: Storage,
        claims: Collection[ManifestClaim],
        progress: Progress,
    ) -> GarbageSet:
        """The garbage without what these manifests refer to."""
