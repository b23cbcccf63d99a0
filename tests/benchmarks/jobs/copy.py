"""`icectl copy` beside `rclone sync`, which moves the same files and knows nothing about them."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from tests.benchmarks.harness import BENCH, Command, Comparison, Scale, dataset, icectl, job
from tests.benchmarks.jobs.gc import native
from tests.benchmarks.object_store import object_store, repository_url
from tests.servers.processes import program
from tests.servers.s3 import BUCKET

CHUNKS = 100_000


def rclone(*words: object) -> Command:
    options = ("sync", "--config", os.devnull, "--quiet")
    return Command((program("rclone"), *options, *map(str, words)))


def copies() -> tuple[Path, Callable[[], None]]:
    """A place for copies, and a function that makes it empty.

    Earlier copies are moved aside and deleted at the end: ext4 looks for inodes that were not
    deleted just now, which makes new files several times slower after 100,000 deletions.
    """
    place, aside = BENCH / "copied-repository", BENCH / "copied-before"
    atexit.register(shutil.rmtree, aside, ignore_errors=True)

    def clear() -> None:
        aside.mkdir(exist_ok=True)
        if place.exists():
            place.rename(aside / uuid4().hex)
        os.sync()  # or the next one waits for what the one before left to write

    return place, clear


@job("copy of 100,000 chunks, disk to disk", target=1.0)
def copy_to_disk(scale: Scale) -> Comparison:
    repository = native(scale, CHUNKS)
    place, clear = copies()
    # icectl publishes only what is on disk; rclone leaves that to the kernel.
    copy = shlex.join(rclone(repository, place).arguments)
    flush = shlex.join(("sync", "--file-system", str(place)))
    return Comparison(
        Command(("sh", "-c", f"{copy} && {flush}"), before=clear),
        icectl("copy", repository, place, before=clear),
        baseline="rclone sync",
        note="both sides end when the file system is synchronized",
    )


@job("copy of 100,000 chunks, disk to S3 without latency", target=1.0)
def copy_to_object_storage(scale: Scale) -> Comparison:
    repository = native(scale, CHUNKS)
    store = object_store()
    s3 = ("--s3-provider", "Other", "--s3-env-auth", "--s3-endpoint", store.direct_url)

    def clear(name: str) -> Callable[[], None]:
        return lambda: store.remove(name)

    return Comparison(
        replace(
            rclone(*s3, "--s3-no-check-bucket", repository, f":s3:{BUCKET}/by-rclone"),
            before=clear("by-rclone"),
            store=store,
        ),
        replace(
            icectl(
                *("copy", repository, repository_url("by-icectl")),
                *("--target-option", f"endpoint_url={store.direct_url}"),
            ),
            before=clear("by-icectl"),
            store=store,
        ),
        baseline="rclone sync",
    )


@job("copy with nothing to do, disk to S3 with 30 ms", target=1.0, most_requests=2)
def copy_nothing(scale: Scale) -> Comparison:
    repository = dataset("linear_history", 10)
    store = object_store()
    store.copy(repository, "same-by-rclone")
    s3 = ("--s3-provider", "Other", "--s3-env-auth", "--s3-no-check-bucket")
    endpoint = ("--s3-endpoint", store.environment["AWS_ENDPOINT_URL"])
    url = repository_url("same-by-icectl")  # the round that warms up copies it
    return Comparison(
        replace(rclone(*s3, *endpoint, repository, f":s3:{BUCKET}/same-by-rclone"), store=store),
        replace(icectl("copy", repository, url), store=store),
        baseline="rclone sync",
    )
