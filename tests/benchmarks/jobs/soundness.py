"""stats and validate on 1,000,000 references, beside the official chunk_storage_stats."""

from __future__ import annotations

from tests.benchmarks.harness import Comparison, Scale, dataset, icectl, job, python
from tests.benchmarks.jobs.gc import native

REFERENCES = 1_000_000
OFFICIAL_STATS = """
import sys, icechunk as ic
repo = ic.Repository.open(ic.local_filesystem_storage(sys.argv[1]))
print(repo.chunk_storage_stats())
"""


@job("stats, virtual refs", target=0.4, memory_target=1)
def stats_of_virtual_refs(scale: Scale) -> Comparison:
    repository = dataset("many_virtual_refs", scale.of(REFERENCES))
    return Comparison(python(OFFICIAL_STATS, repository), icectl("stats", "-r", repository))


@job("stats, native refs", target=0.4, memory_target=1)
def stats_of_native_refs(scale: Scale) -> Comparison:
    repository = dataset("synthetic_native_refs", scale.of(REFERENCES), expired=True)
    return Comparison(python(OFFICIAL_STATS, repository), icectl("stats", "-r", repository))


@job("stats, native refs of two versions", target=0.4, memory_target=1)
def stats_of_two_versions(scale: Scale) -> Comparison:
    repository = dataset("synthetic_native_refs", scale.of(REFERENCES))
    return Comparison(
        python(OFFICIAL_STATS, repository),
        icectl("stats", "-r", repository),
        note="two manifests of that many references each",
    )


@job("validate --level manifests", target=1)
def validate_manifests(scale: Scale) -> Comparison:
    repository = dataset("many_virtual_refs", scale.of(REFERENCES))
    return Comparison(
        python(OFFICIAL_STATS, repository),
        icectl("validate", "--level", "manifests", "-r", repository),
        "official stats",
    )


@job("validate --level chunks")
def validate_chunks(scale: Scale) -> Comparison:
    repository = native(scale, REFERENCES)
    return Comparison(
        python(OFFICIAL_STATS, repository),
        icectl("validate", "--level", "chunks", "-r", repository),
        "official stats",
        "the official side does not look at the chunk files",
    )
