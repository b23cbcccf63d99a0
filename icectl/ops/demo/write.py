"""Write the demo repository, and give it the dates of its story.

Both authors can only write in the present. Afterwards each time in the files, and the time of
each file, is moved to the step of the story in which it was written.
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

from icectl.errors import IcectlError, RefusedError, Remedy, UsageError
from icectl.format.repo import decode_repo, encode_repo
from icectl.format.snapshot import decode_snapshot, encode_snapshot
from icectl.model.repo import RepoInfo
from icectl.ops.demo.story import Action, plan_story
from icectl.repository.layout import STANDARD
from icectl.repository.ops_log import BACKUPS, REPO_PATH
from icectl.storage.local import LocalStorage

Author = Literal["icechunk", "icectl"]

CLOCK_TICK_SECONDS = 0.02
"""The time of a file comes from a clock that may lag behind the one we read by so much."""


@dataclass(frozen=True, slots=True)
class DemoRepository:
    location: str
    author: Author


def parse_directory(text: str) -> Path:
    if not text or "://" in text:
        raise UsageError(
            f"the demo is made in a directory of this machine, and {text!r} is none",
            hint=Remedy("make-demo"),
        )
    return Path(text)


def check_directory(directory: Path) -> None:
    """`RefusedError` unless the directory is empty or does not exist yet."""
    try:
        if directory.exists() and any(directory.iterdir()):
            raise RefusedError(
                f"{directory} is not empty", hint="the demo wants a new or an empty directory"
            )
    except OSError as error:
        raise UsageError(f"{directory} cannot be used: {error.strerror}") from None


def choose_author(wanted: str | None) -> Author:
    """Whom `wanted` names; else the official package where it is installed."""
    installed = all(find_spec(name) for name in ("icechunk", "zarr"))
    if wanted == "icechunk" and not installed:
        raise UsageError(
            "the official package is not installed here",
            hint=Remedy("install-demo"),
        )
    return "icechunk" if installed and wanted != "icectl" else "icectl"


def write_demo_repository(directory: Path, now: int, author: Author) -> DemoRepository:
    """The repository of `plan_story(now)` in a new directory."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IcectlError(f"{directory} cannot be made: {error.strerror}") from None
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
        """The step's own moment, however long it took: the sizes of files follow from times."""
        return moments[max(0, bisect_right(began, time_then) - 1)]

    _redate(directory, moved)
    return DemoRepository(str(directory), author)


def _author(author: Author) -> Callable[[Path], Callable[[Action], None]]:
    """Makes the repository in a directory, and returns what writes a step of the story."""
    if author == "icechunk":
        from icectl.ops.demo.official import OfficialAuthor

        return lambda directory: OfficialAuthor(directory).act
    from icectl.ops.demo.own import OwnAuthor

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
