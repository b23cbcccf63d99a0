"""Write the demo repository and change its dates to those of the story.

Both authors can only write with the current time. Afterwards each time in the files, and the
modification time of each file, is set to the time of the step that wrote it.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from icectl.demo.story import Action, plan_story
from icectl.errors import IcectlError, RefusedError, Remedy, UsageError
from icectl.format.repo import decode_repo, encode_repo
from icectl.format.snapshot import decode_snapshot, encode_snapshot
from icectl.model.repo import RepoInfo
from icectl.repository.layout import STANDARD
from icectl.repository.ops_log import BACKUPS, REPO_PATH
from icectl.storage.local import LocalStorage

Author = Literal["icechunk", "icectl"]

CLOCK_TICK_SECONDS = 0.02
"""The clock of the file system may lag behind `time.time_ns` by this much."""


@dataclass(frozen=True, slots=True)
class DemoRepository:
    location: str
    author: Author


def parse_directory(text: str) -> Path:
    if not text or "://" in text:
        raise UsageError(
            f"the demo needs a local directory, but {text!r} is not one",
            hint=Remedy("make-demo"),
        )
    return Path(text)


def check_directory(directory: Path) -> None:
    """Raise `RefusedError` unless the directory is empty or does not exist."""
    try:
        if directory.exists() and any(directory.iterdir()):
            raise RefusedError(
                f"{directory} is not empty", hint="choose a new or an empty directory"
            )
    except OSError as error:
        raise UsageError(f"{directory} cannot be used: {error.strerror}") from None


def choose_author(wanted: str | None) -> Author:
    """Return the wanted author; by default the official package if it is installed."""
    installed = all(find_spec(name) for name in ("icechunk", "zarr"))
    if wanted == "icechunk" and not installed:
        raise UsageError(
            "the official package is not installed",
            hint=Remedy("install-demo"),
        )
    return "icechunk" if installed and wanted != "icectl" else "icectl"


def write_demo_repository(directory: Path, now: int, author: Author) -> DemoRepository:
    """Write the repository of `plan_story(now)` into a new directory."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IcectlError(f"{directory} cannot be created: {error.strerror}") from None
    born, steps = plan_story(now)
    moments = [born, *(step.at for step in steps)]
    make_author = _author(author)
    began = [time.time_ns() // 1000]
    act = make_author(directory)
    for step in steps:
        began.append(time.time_ns() // 1000)
        time.sleep(CLOCK_TICK_SECONDS)
        act(step.action)

    def moved(time_then: int) -> int:
        """Return the time of the step, however long it took: times affect the size of files."""
        return moments[max(0, bisect_right(began, time_then) - 1)]

    _redate(directory, moved)
    return DemoRepository(str(directory), author)


def _author(author: Author) -> Callable[[Path], Callable[[Action], None]]:
    """Return a function that creates the repository and returns a writer for steps."""
    if author == "icechunk":
        from icectl.demo.official import OfficialAuthor

        return lambda directory: OfficialAuthor(directory).act
    from icectl.demo.own import OwnAuthor

    return lambda directory: OwnAuthor(LocalStorage(directory)).act


def _redate(directory: Path, moved: Callable[[int], int]) -> None:
    written = {path: path.stat().st_mtime_ns for path in directory.rglob("*") if path.is_file()}
    for path in written:
        kind = path.relative_to(directory).parts[0]
        if kind in (REPO_PATH, BACKUPS):
            path.write_bytes(encode_repo(_redated(decode_repo(path.read_bytes()), moved)))
        elif kind == STANDARD.snapshots:
            snapshot = decode_snapshot(path.read_bytes())
            dated = replace(snapshot, flushed_at=moved(snapshot.flushed_at))
            path.write_bytes(encode_snapshot(dated))
    for path, time_then in written.items():
        seconds = moved(time_then // 1000) / 1e6
        os.utime(path, (seconds, seconds))


def _redated(info: RepoInfo, moved: Callable[[int], int]) -> RepoInfo:
    return replace(
        info,
        snapshots=tuple(replace(s, flushed_at=moved(s.flushed_at)) for s in info.snapshots),
        status=replace(info.status, set_at=moved(info.status.set_at)),
        latest_updates=tuple(
            replace(update, updated_at=moved(update.updated_at)) for update in info.latest_updates
        ),
    )
