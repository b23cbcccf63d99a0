"""Garbage collection beside the official package: the plan alone, and with all deletes.

A third of the native chunks is garbage. A real run destroys its repository, so that each one
gets a fresh copy, made of hard links.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.benchmarks.harness import (
    BENCH,
    Command,
    Comparison,
    Scale,
    dataset,
    icectl,
    job,
    python,
)

OFFICIAL = """
import datetime, sys, icechunk as ic
repo = ic.Repository.open(ic.local_filesystem_storage(sys.argv[1]))
moment = datetime.datetime.now(datetime.UTC)
print(repo.garbage_collect(moment, dry_run=sys.argv[2] == "dry"))
"""
OURS = ("gc", "--older-than", "0s", "--allow-recent", "--json", "--quiet")


def dry_runs(repository: Path) -> Comparison:
    return Comparison(
        python(OFFICIAL, repository, "dry"), icectl(*OURS, "--dry-run", "-r", repository)
    )


def native(scale: Scale, count: int) -> Path:
    chunks = scale.of(count)
    return dataset("many_native_chunks", chunks - chunks // 3, overwritten=chunks // 3)


def real_runs(repository: Path) -> Comparison:
    def copy(name: str) -> Path:
        return BENCH / "copies" / f"{repository.name}-{name}"

    def renew(name: str) -> None:
        # A million links by Python itself would take minutes.
        subprocess.run(["rm", "-rf", copy(name)], check=True)
        copy(name).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-al", repository, copy(name)], check=True)
        # `repo` is the only file that is written to.
        (copy(name) / "repo").unlink()
        shutil.copy2(repository / "repo", copy(name) / "repo")

    official = python(OFFICIAL, copy("official"), "real")
    return Comparison(
        Command(official.arguments, before=lambda: renew("official")),
        icectl(*OURS, "--yes", "-r", copy("ours"), before=lambda: renew("ours")),
    )


@job("gc dry run, 100,000 native chunks", target=0.35, memory_target=1)
def dry_run_100_000(scale: Scale) -> Comparison:
    return dry_runs(native(scale, 100_000))


@job("gc dry run, 1,000,000 native chunks", target=0.35, memory_target=1)
def dry_run_1_000_000(scale: Scale) -> Comparison:
    return dry_runs(native(scale, 1_000_000))


@job("gc dry run, 1,000,000 virtual refs", target=0.35, memory_target=1)
def dry_run_virtual(scale: Scale) -> Comparison:
    return dry_runs(dataset("many_virtual_refs", scale.of(1_000_000)))


@job("gc dry run, 2,000 small manifests", target=0.8, memory_target=1)
def dry_run_small_manifests(scale: Scale) -> Comparison:
    return dry_runs(dataset("many_small_manifests", scale.of(2_000)))


@job("gc dry run, 2,000 commits, half of them amended", target=0.8, memory_target=1)
def dry_run_amended(scale: Scale) -> Comparison:
    """Each amend has to be explained by the ops log."""
    return dry_runs(dataset("many_commits", scale.of(2_000), amends=True))


@job("gc, 100,000 native chunks", target=0.6, memory_target=1)
def real_run_100_000(scale: Scale) -> Comparison:
    return real_runs(native(scale, 100_000))


@job("gc, 1,000,000 native chunks", target=0.6, memory_target=1)
def real_run_1_000_000(scale: Scale) -> Comparison:
    return real_runs(native(scale, 1_000_000))
