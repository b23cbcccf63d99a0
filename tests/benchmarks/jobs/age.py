"""Repositories with 1,800 days of maintenance behind them: CPU seconds, and growth since day 100.

Each day has a commit, an expiration and, in one of the two, a garbage collection. Seconds are CPU
seconds of the process, which do not depend on the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.benchmarks.harness import Comparison, Scale, cpu, dataset, icectl, job, python
from tests.benchmarks.jobs.expiration import fresh_copy

DAYS = 1_800
EARLY_DAYS = 100
TARGET = 1.5
GROWTH = 2.0
"""A constant factor: the ops log is 18 times longer."""

OPEN = """
import datetime, sys, icechunk as ic
repo = ic.Repository.open(ic.local_filesystem_storage(sys.argv[1]))
now = datetime.datetime.now(datetime.UTC)
"""
COLLECT = OPEN + "print(repo.garbage_collect(now, dry_run=True))"
EXPIRE = OPEN + "print(len(repo.expire_snapshots(now)))"
OPS_LOG = OPEN + "print(len(list(repo.ops_log())))"
STATS = OPEN + "print(repo.total_chunks_storage())"
GC = ("gc", "--older-than", "0s", "--allow-recent", "--json", "--quiet", "--dry-run")
VALIDATE = ("validate", "--level", "manifests", "--json")
JOBS = {
    "gc dry run": (COLLECT, GC),
    "ops-log": (OPS_LOG, ("ops-log", "--jsonl")),
    "validate manifests": (STATS, VALIDATE),
}


def aged(days: int, daily_gc: bool) -> Path:
    return dataset("daily_maintenance", days, gc=daily_gc)


def beside_official(
    theirs: str, ours: tuple[str, ...], daily_gc: bool
) -> Callable[..., Comparison]:
    def build(scale: Scale) -> Comparison:
        where = aged(scale.of(DAYS), daily_gc)
        note = "theirs is total_chunks_storage" if theirs == STATS else ""
        return Comparison(cpu(python(theirs, where)), cpu(icectl(*ours, "-r", where)), note=note)

    return build


def beside_early_days(ours: tuple[str, ...], daily_gc: bool) -> Callable[..., Comparison]:
    def build(scale: Scale) -> Comparison:
        early, late = (aged(scale.of(days), daily_gc) for days in (EARLY_DAYS, DAYS))
        return Comparison(
            cpu(icectl(*ours, "-r", early)), cpu(icectl(*ours, "-r", late)), baseline="day 100"
        )

    return build


def expire_beside_official(daily_gc: bool) -> Callable[..., Comparison]:
    def build(scale: Scale) -> Comparison:
        source = aged(scale.of(DAYS), daily_gc)
        theirs, copy_theirs = fresh_copy(source, "age-theirs")
        ours, copy_ours = fresh_copy(source, "age-ours")
        words = ("expire", "-r", ours, "--older-than", "0s", "--yes", "--json")
        return Comparison(
            replace(cpu(python(EXPIRE, theirs)), before=copy_theirs),
            cpu(icectl(*words, before=copy_ours)),
        )

    return build


for daily_gc in (True, False):
    after = "1,800 days" if daily_gc else "1,800 days without gc"
    for name, (theirs, ours) in JOBS.items():
        job(f"{name} after {after}", target=TARGET)(beside_official(theirs, ours, daily_gc))
        job(f"{name}, growth since day 100, {after}", target=GROWTH)(
            beside_early_days(ours, daily_gc)
        )
    job(f"expire after {after}", target=TARGET)(expire_beside_official(daily_gc))
