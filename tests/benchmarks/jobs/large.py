"""Commands on large repositories: the time at full size beside that at a tenth of it."""

from __future__ import annotations

import shutil

from tests.benchmarks.harness import (
    BENCH,
    Command,
    Comparison,
    Scale,
    dataset,
    growth_job,
    icectl,
    job,
    python,
)
from tests.benchmarks.jobs.commands import completing
from tests.benchmarks.jobs.soundness import OFFICIAL_STATS

REFERENCES, COMMITS = 10_000_000, 20_000


def stats_command(references: int) -> Command:
    return icectl("stats", "-r", dataset("native_refs_in_manifests", references))


def completion_command(commits: int) -> Command:
    return completing(dataset("many_snapshots", commits))


growth_job("stats, 10,000,000 refs", REFERENCES)(stats_command)
growth_job("completion of a ref, 20,000 commits", COMMITS)(completion_command)


@job("stats, 10,000,000 refs", target=1, memory_target=1)
def stats(scale: Scale) -> Comparison:
    references = scale.of(REFERENCES)
    repository = dataset("native_refs_in_manifests", references)
    return Comparison(python(OFFICIAL_STATS, repository), stats_command(references))


@job("completion of a ref, 20,000 commits", target=0.5)
def complete_ref(scale: Scale) -> Comparison:
    return Comparison(
        python("import icechunk"), completion_command(scale.of(COMMITS)), "import icechunk"
    )


@growth_job("gc --overwritten-older-than, 20,000 operations", 20_000)
def trim_backups(operations: int) -> Command:
    repository = dataset("many_operations", operations)
    trim = ("gc", "--older-than", "0s", "--overwritten-older-than", "0s", "--allow-recent")
    return icectl(*trim, "--truncate-ops-log", "--dry-run", "--quiet", "-r", repository)


@growth_job("export objects, 2,000,000 files", 2_000_000)
def export_objects(files: int) -> Command:
    repository = dataset("many_files", files)
    target = BENCH / "copies" / f"{repository.name}-tables"
    return icectl(
        *("export", "objects", "--to", target, "--engine", "local", "--quiet", "-r", repository),
        before=lambda: shutil.rmtree(target, ignore_errors=True),
    )
