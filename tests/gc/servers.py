"""gc on an object store: compared with the official package, and beside official writers."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icectl.errors import ConflictError
from icectl.ops.gc.run import GcOptions, collect_garbage
from icectl.pipeline.progress import OutOfTimeError, Progress
from icectl.storage.contract import Storage
from icectl.storage.open import open_storage
from tests.gc.repositories import (
    collect,
    files,
    live,
    messy_repository,
    now,
    official_gc,
    paths,
    random_repository,
    upload,
)
from tests.official import open_official, zarr
from tests.official.histories import commit, create
from tests.patience import PATIENCE_SECONDS
from tests.servers.s3 import S3Server


def check_like_official_on_server(
    source: Path,
    prefix: str,
    open_ours: Callable[[str], Storage],
    open_theirs: Callable[[str], Any],
    look_at_plan: Callable[[Storage, int], object] = lambda storage, cutoff: None,
    **options: Any,
) -> None:
    """The same objects remain as the official package leaves on a copy, and the same data."""
    ours, copy = open_ours(prefix), open_ours(f"{prefix}-copy")
    for storage in (ours, copy):
        upload(source, storage)
    cutoff = ours.read_clock() + 3_100_000  # times have whole seconds here
    before = live(open_theirs(prefix))
    look_at_plan(ours, cutoff)
    official_gc(open_theirs(f"{prefix}-copy"), cutoff)
    _, deleted = collect(ours, cutoff, **options)
    assert not deleted.failures
    assert paths(ours) == paths(copy) < files(source)
    assert live(open_theirs(prefix)) == before
    run, _ = collect(ours, cutoff, **options)
    assert run.plan.num_objects == 0


SOURCES = [
    pytest.param((messy_repository, 1), id="messy-1"),
    pytest.param((messy_repository, 2), id="messy-2"),
    pytest.param((random_repository, 5001, 40, 1), id="random-1"),
    pytest.param((random_repository, 5002, 40, 2), id="random-2"),
]


class Writer(threading.Thread):
    """Commits, tags, branches and resets through the official package, and knows its data."""

    def __init__(self, storage: Any, name: str, seed: int, pause: float) -> None:
        super().__init__(name=name)
        self.pause = pause
        self.repo = open_official(storage)
        self.branch = name
        self.random = random.Random(seed)
        self.stopped = threading.Event()
        self.expected: dict[str, np.ndarray[Any, Any]] = {}
        self.error: BaseException | None = None
        self.began_at = now()
        """No object of its open session is older."""
        tip = self.repo.lookup_branch("main")
        self.repo.create_branch(name, tip)
        self.expected[tip] = np.zeros(64, "i8")

    def run(self) -> None:
        try:
            number = 0
            while not self.stopped.is_set():
                number += 1
                self.step(number)
                self.stopped.wait(self.pause)
        except BaseException as error:
            self.error = error

    def step(self, number: int) -> None:
        self.began_at = now()
        tip = self.repo.lookup_branch(self.branch)
        session = self.repo.writable_session(self.branch)
        array = zarr.open_array(session.store, path="a")
        start = self.random.randrange(4) * 16
        array[start : start + 16] = number
        new = session.commit(f"{self.branch} {number}")
        data = self.expected[tip].copy()
        data[start : start + 16] = number
        self.expected[new] = data
        if number % 5 == 0:
            self.repo.create_tag(f"{self.branch} {number}", new)
        if number % 7 == 0:
            ancestry = list(self.repo.ancestry(branch=self.branch))
            self.repo.reset_branch(self.branch, self.random.choice(ancestry[:4]).id)


def check_concurrency(
    server: S3Server, prefix: str, seconds: float, *, pause: float = 0.5, **options: Any
) -> tuple[int, int]:
    """How many objects were deleted while the writers were at work, and afterwards.

    On a slow machine, writers that pause go on until gc has deleted something.
    """
    official = server.official_storage(prefix)
    repo = create(official, 2, inline_chunk_threshold_bytes=0)
    with commit(repo, "array") as root:
        root.create_array(
            "a", shape=(64,), chunks=(16,), dtype="i8", compressors=None, fill_value=0
        )
    # Executors of Spark have credentials in their environment, and not where the server is.
    storage = open_storage(f"s3://{server.bucket}/{prefix}", {"endpoint_url": server.url})
    writers = [Writer(official, f"writer-{number}", number, pause) for number in range(2)]
    written = [writer.expected for writer in writers]
    for writer in writers:
        writer.start()
    deleted = 0
    end = time.monotonic() + seconds
    last_end = end + (PATIENCE_SECONDS if pause else 0)
    try:
        while time.monotonic() < (end if deleted else last_end) or min(map(len, written)) < 4:
            assert all(writer.is_alive() for writer in writers)
            # The contract of gc: no writer takes longer to commit than the cutoff is past.
            began_at = min(writer.began_at for writer in writers)
            cutoff = min(now() - 4_000_000, began_at - 1_100_000)  # times have whole seconds
            try:
                _, done = collect_garbage(
                    storage,
                    GcOptions(cutoff=cutoff, **options),
                    lambda run: None,
                    Progress(deadline=max(last_end, time.monotonic() + 1)),
                )
            except (ConflictError, OutOfTimeError):
                continue  # the writers were faster each time
            deleted += sum(done.count.values())
            assert not done.failures
    finally:
        for writer in writers:
            writer.stopped.set()
        for writer in writers:
            writer.join()
    assert [writer.error for writer in writers] == [None, None]
    _, last = collect(storage, now() + 3_100_000, **options)
    repo = open_official(official)
    checked = 0
    for writer in writers:
        names = [name for name in repo.list_tags() if name.startswith(writer.branch)]
        tips = [repo.ancestry(branch=writer.branch), *(repo.ancestry(tag=name) for name in names)]
        for info in {info.id: info for tip in tips for info in tip}.values():
            if info.id in writer.expected:
                array = zarr.open_array(
                    repo.readonly_session(snapshot_id=info.id).store, path="a", mode="r"
                )
                assert (array[:] == writer.expected[info.id]).all()
                checked += 1
    assert checked > 2
    return deleted, sum(last.count.values())
