"""Changes of a repository with a long history."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.benchmarks.harness import BENCH, Comparison, Scale, dataset, icectl, job, python

EXPIRE = """
import sys, datetime, icechunk as ic
repo = ic.Repository.open(ic.local_filesystem_storage(sys.argv[1]))
cutoff = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=30)
print(len(repo.expire_snapshots(cutoff)))
"""

CREATE_BRANCH = """
import sys, icechunk as ic
repo = ic.Repository.open(ic.local_filesystem_storage(sys.argv[1]))
repo.create_branch("new", repo.lookup_branch("main"))
"""


def fresh_copy(source: Path, name: str) -> tuple[Path, Callable[[], None]]:
    target = BENCH / "copies" / name

    def copy() -> None:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)

    return target, copy


@job("expire 100,000 snapshots", target=1)
def expire_many(scale: Scale) -> Comparison:
    source = dataset("many_snapshots", scale.of(100_000))
    theirs, copy_theirs = fresh_copy(source, "expire-theirs")
    ours, copy_ours = fresh_copy(source, "expire-ours")
    words = ("expire", "-r", ours, "--older-than", "30d", "--yes", "--json")
    return Comparison(
        replace(python(EXPIRE, theirs), before=copy_theirs), icectl(*words, before=copy_ours)
    )


@job("expire 100,000 snapshots, retention plan", target=1.5)
def plan_retention(scale: Scale) -> Comparison:
    source = dataset("many_snapshots", scale.of(100_000))
    theirs, copy = fresh_copy(source, "expire-theirs")
    rules = ("--keep-last", "100", "--keep-daily", "365", "--keep-monthly", "60")
    return Comparison(
        replace(python(EXPIRE, theirs), before=copy),
        icectl("expire", "-r", source, *rules, "--dry-run"),
        note="theirs is the cutoff of 30 days carried out: it has no dry run and no rules",
    )


@job("branch create, 100,000 snapshots", target=1, memory_target=1)
def create_branch(scale: Scale) -> Comparison:
    source = dataset("many_snapshots", scale.of(100_000))
    theirs, copy_theirs = fresh_copy(source, "branch-theirs")
    ours, copy_ours = fresh_copy(source, "branch-ours")
    return Comparison(
        replace(python(CREATE_BRANCH, theirs), before=copy_theirs),
        icectl("branch", "create", "new", "main", "-r", ours, before=copy_ours),
    )
