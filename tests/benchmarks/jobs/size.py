"""Versions with many nodes or references, beside the official package and a tenth of the size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.harness import (
    Command,
    Comparison,
    Scale,
    dataset,
    growth_job,
    icectl,
    job,
    python,
)
from tests.benchmarks.jobs.gc import OFFICIAL as OFFICIAL_GC
from tests.benchmarks.jobs.gc import OURS as GC
from tests.benchmarks.jobs.soundness import OFFICIAL_STATS

WRITTEN, REFS_PER_MANIFEST = 10_000_000, 25_000
REFERENCES, CHANGED_OF = 5_000_000, 5_000
ARRAYS, COMMITS = 10_000, 50
OFFICIAL_DIFF = """
import sys, icechunk as ic
repo = ic.Repository.open(ic.local_filesystem_storage(sys.argv[1]))
diff = repo.diff(from_tag=sys.argv[2], to_branch="main")
print({path: len(list(chunks)) for path, chunks in diff.updated_chunks.items()})
"""


def written(references: int) -> Path:
    manifests = max(1, references // REFS_PER_MANIFEST)
    return dataset("virtual_refs_in_one_commit", references, manifests)


def changed(references: int) -> Path:
    return dataset("changed_native_refs", references, max(1, references // CHANGED_OF))


def wide(arrays: int) -> Path:
    return dataset("many_arrays", arrays, COMMITS)


def register(
    name: str,
    full: int,
    repository: Callable[[int], Path],
    ours: tuple[str, ...],
    official: tuple[str, ...] | None = None,
) -> None:
    """A growth job, and one beside the official package if it can do the same."""

    def command(size: int) -> Command:
        return icectl(*ours, "-r", repository(size))

    growth_job(name, full)(command)
    if official is None:
        return
    code, *arguments = official

    @job(name, target=1, memory_target=1)
    def compare(scale: Scale) -> Comparison:
        where = repository(scale.of(full))
        return Comparison(python(code, where, *arguments), command(scale.of(full)))


from_before, from_first = (OFFICIAL_DIFF, "before"), (OFFICIAL_DIFF, "first")
written_refs = "10,000,000 refs in 400 manifests"
register(f"diff of {written_refs}", WRITTEN, written, ("diff", "before"), from_before)
register(
    f"diff --stat of {written_refs}", WRITTEN, written, ("diff", "before", "--stat"), from_before
)
register("diff of 1,000 in 5,000,000 refs", REFERENCES, changed, ("diff", "before"), from_before)
register(
    "diff --stat of 1,000 in 5,000,000 refs", REFERENCES, changed, ("diff", "before", "--stat")
)

many_arrays = "10,000 arrays, 50 commits"
register(f"diff, {many_arrays}", ARRAYS, wide, ("diff", "first"), from_first)
register(f"stats, {many_arrays}", ARRAYS, wide, ("stats",), (OFFICIAL_STATS,))
register(f"gc dry run, {many_arrays}", ARRAYS, wide, (*GC, "--dry-run"), (OFFICIAL_GC, "dry"))
register(f"validate metadata, {many_arrays}", ARRAYS, wide, ("validate", "--level", "metadata"))
register(
    f"expire dry run, {many_arrays}", ARRAYS, wide, ("expire", "--older-than", "0s", "--dry-run")
)
