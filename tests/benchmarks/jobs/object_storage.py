"""Commands on S3 with 30 ms per request: what counts are requests that wait for each other.

The official package opens a repository with four requests, has up to 256 in flight, and lists
each prefix with 33.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.benchmarks.harness import (
    Command,
    Comparison,
    Scale,
    dataset,
    icectl,
    job,
    python,
)
from tests.benchmarks.jobs.gc import OURS as GC
from tests.benchmarks.jobs.gc import native
from tests.benchmarks.object_store import object_store, repository_url

OPEN = """
import datetime, os, sys, icechunk as ic
bucket, _, prefix = sys.argv[1].removeprefix("s3://").partition("/")
repo = ic.Repository.open(
    ic.s3_storage(
        bucket=bucket,
        prefix=prefix,
        endpoint_url=os.environ["AWS_ENDPOINT_URL"],
        allow_http=True,
        force_path_style=True,
        region="us-east-1",
        from_env=True,
    )
)
"""
STATUS = "print(repo.get_status(), repo.list_branches(), repo.list_tags())"
LOG = "for info in repo.ancestry(branch='main'): print(info.id, info.written_at, info.message)"
OPS_LOG = "for update in repo.ops_log(): print(update.updated_at, update.kind)"
CREATE_BRANCH = "repo.create_branch('new', repo.lookup_branch('main'))"
CREATE_TAG = "repo.create_tag('new', repo.lookup_branch('main'))"
DIFF = """
commits = [info.id for info in repo.ancestry(branch="main")]
print(repo.diff(from_snapshot_id=commits[int(sys.argv[2])], to_branch="main"))
"""
STATS = "print(repo.chunk_storage_stats())"
COLLECT = "print(repo.garbage_collect(datetime.datetime.now(datetime.UTC), dry_run=True))"
SNAPSHOTS, EXPIRING_COMMITS, KEPT = 2_000, 1_500, 240


def remote(command: Command) -> Command:
    return replace(command, store=object_store())


def official(code: str, *arguments: object) -> Command:
    return remote(python(OPEN + code, *arguments))


def read(repository: Path, code: str, *words: object) -> Comparison:
    url = object_store().copy_once(repository)
    return Comparison(official(code, url), remote(icectl(*words, "-r", url)))


def change(code: str, *words: object) -> Comparison:
    """Both sides begin with the same `repo` file in each round."""
    repository = dataset("linear_history", 10)
    url = repository_url("changed")

    def renew() -> None:
        object_store().copy(repository, "changed")

    return Comparison(
        replace(official(code, url), before=renew),
        replace(remote(icectl(*words, "-r", url)), before=renew),
    )


def many_manifests(scale: Scale) -> Path:
    return dataset("many_manifests", scale.of(SNAPSHOTS))


def many_expirations(scale: Scale) -> Path:
    return dataset("many_expirations", scale.of(EXPIRING_COMMITS), kept=scale.of(KEPT))


@job("s3: status", target=0.5, request_target=1)
def status(scale: Scale) -> Comparison:
    return read(dataset("linear_history", 10), STATUS, "status")


@job("s3: log", target=0.5, request_target=1)
def log(scale: Scale) -> Comparison:
    return read(dataset("linear_history", 10), LOG, "log")


@job("s3: ops-log", target=1, request_target=1)
def ops_log(scale: Scale) -> Comparison:
    return read(dataset("linear_history", 10), OPS_LOG, "ops-log")


@job("s3: branch create", target=1, request_target=1, most_requests=5)
def create_branch(scale: Scale) -> Comparison:
    return change(CREATE_BRANCH, "branch", "create", "new", "main")


@job("s3: tag create", target=1, request_target=1, most_requests=5)
def create_tag(scale: Scale) -> Comparison:
    return change(CREATE_TAG, "tag", "create", "new", "main")


@job("s3: diff, 500 commits apart", target=1, request_target=1)
def diff(scale: Scale) -> Comparison:
    commits = scale.of(500)
    url = object_store().copy_once(dataset("many_commits", scale.of(2_000)))
    return Comparison(
        official(DIFF, url, commits), remote(icectl("diff", f"main~{commits}", "main", "-r", url))
    )


@job("s3: stats, 2,000 snapshots and manifests", target=1, request_target=1)
def stats(scale: Scale) -> Comparison:
    return read(many_manifests(scale), STATS, "stats")


@job("s3: gc dry run, 30,000 chunks", target=1, request_target=1)
def collect_chunks(scale: Scale) -> Comparison:
    return read(native(scale, 30_000), COLLECT, *GC, "--dry-run")


@job("s3: gc dry run, 2,000 snapshots and manifests", target=1, request_target=1)
def collect_snapshots(scale: Scale) -> Comparison:
    return read(many_manifests(scale), COLLECT, *GC, "--dry-run")


@job("s3: gc dry run, 1,500 commits with 375 expirations", target=1, request_target=1)
def collect_after_expirations(scale: Scale) -> Comparison:
    return read(many_expirations(scale), COLLECT, *GC, "--dry-run")


@job("s3: validate --level manifests, 2,000 snapshots", target=1, request_target=1)
def validate_manifests(scale: Scale) -> Comparison:
    url = object_store().copy_once(many_manifests(scale))
    return Comparison(
        official(OPS_LOG + DIFF + STATS, url, -1),
        remote(icectl("validate", "--level", "manifests", "-r", url)),
        "official reads",
        "theirs are ops log, stats and diff from the first snapshot, which read the same files; stats"
        " alone reads no transaction log",
    )


@job("s3: validate, 1,260 pruned logs", target=1, request_target=1)
def validate_pruned_logs(scale: Scale) -> Comparison:
    url = object_store().copy_once(many_expirations(scale))
    return Comparison(
        official(OPS_LOG + DIFF + STATS, url, -1),
        remote(icectl("validate", "-r", url)),
        "official reads",
        "theirs as above",
    )
