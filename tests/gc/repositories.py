"""Repositories with garbage of every kind, and what the official package makes of them."""

from __future__ import annotations

import datetime
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from icectl.ops.gc.execute import Deleted
from icectl.ops.gc.plan import GcPlan, plan_gc
from icectl.ops.gc.run import GcOptions, collect_garbage
from icectl.repository.open import open_repository
from icectl.storage.contract import Storage
from icectl.storage.local import LocalStorage
from tests.official import Where, ic, open_official, random_history, read_everything, zarr
from tests.official.histories import commit, create

OBJECTS = ("snapshots", "transactions", "manifests", "chunks")
DATA = OBJECTS


def now() -> int:
    return time.time_ns() // 1000


def files(repository: Path, directories: tuple[str, ...] = OBJECTS) -> set[str]:
    """The objects that are there, as paths."""
    return {
        f"{directory}/{path.name}"
        for directory in directories
        if (repository / directory).is_dir()
        for path in (repository / directory).iterdir()
    }


def planned_paths(plan: GcPlan) -> set[str]:
    return {path for garbage in plan.garbage.values() for path in garbage.paths()}


def paths(storage: Storage) -> set[str]:
    found = {info.path for info in storage.list("")}
    return {path for path in found if path.split("/")[0] in OBJECTS}


def live_paths(repository: Path) -> set[str]:
    plan = plan_gc(open_repository(LocalStorage(repository)), now())
    return files(repository) - planned_paths(plan)


def upload(source: Path, storage: Storage) -> None:
    for path in source.rglob("*"):
        if path.is_file():
            storage.put_if_absent(path.relative_to(source).as_posix(), path.read_bytes())


def abandon_session(repo: ic.Repository) -> None:
    """Chunks that a writer wrote and never committed."""
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    root.create_array("abandoned", shape=(64,), chunks=(16,), dtype="i8", compressors=None)[:] = 7


def orphan_objects(repository: Path) -> None:
    """What a writer that died between its files and its commit leaves: a manifest, a snapshot."""
    for directory in ("manifests", "snapshots", "transactions"):
        found = sorted((repository / directory).iterdir())
        name = ic_random_name()
        (repository / directory / name).write_bytes(found[0].read_bytes())


def ic_random_name() -> str:
    from icectl.model.ids import ChunkId

    return str(ChunkId.generate())


def messy_repository(where: Path, spec_version: int = 2) -> ic.Repository:
    """Overwritten chunks, reset and deleted branches, deleted tags, expiration, amends,
    detached and abandoned work, orphans, shared manifests and pruned logs; it ends in commits,
    so that everything is stored twice."""
    repo = create(where, spec_version)
    plain: dict[str, Any] = {"dtype": "i8", "compressors": None, "fill_value": 0}
    with commit(repo, "arrays") as root:
        root.create_array("a", shape=(128,), chunks=(16,), **plain)[:] = np.arange(128)
        root.create_array("b", shape=(64,), chunks=(16,), **plain)[:] = 1
        root.create_array("inline", shape=(8,), chunks=(4,), **plain)[:] = 2
    for number in range(4):
        with commit(repo, f"rewrite {number}") as root:
            root["a"][number * 16 : number * 16 + 32] = -number
    released = repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
    assert released
    tip = repo.lookup_branch("main")
    repo.create_branch("side", tip)
    repo.create_tag("kept", tip)
    with commit(repo, "on the side", branch="side") as root:
        root["b"][:] = 5
    repo.create_tag("gone", repo.lookup_branch("side"))
    with commit(repo, "more on the side", branch="side") as root:
        root["b"][:16] = 6
    repo.delete_branch("side")
    repo.delete_tag("gone")
    with commit(repo, "reset away") as root:
        root["a"][:] = 9
    repo.reset_branch("main", tip)
    if spec_version >= 2:
        with commit(repo, "to be amended") as root:
            root["a"][:16] = 10
        with commit(repo, "amended", amend=True) as root:
            root["a"][16:32] = 11
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a")[:] = 12
    session.flush("detached")
    abandon_session(repo)
    orphan_objects(where)
    repo.create_branch("other", repo.lookup_branch("main"))
    with commit(repo, "other", branch="other") as root:
        root["b"][16:48] = 13
    with commit(repo, "last") as root:
        root["a"][32:48] = 14
        root["b"].attrs["unit"] = "m"
    return open_official(where)


def random_repository(where: Path, seed: int, steps: int, spec_version: int) -> None:
    random_history(where, seed, steps, spec_version)
    abandon_session(open_official(where))
    orphan_objects(where)


def collect(
    where: Path | Storage, cutoff: int | None = None, **options: Any
) -> tuple[Any, Deleted]:
    storage = LocalStorage(where) if isinstance(where, Path) else where
    return collect_garbage(
        storage, GcOptions(cutoff=now() if cutoff is None else cutoff, **options), lambda run: None
    )


def official_gc(where: Where, cutoff: int | None = None) -> Any:
    moment = datetime.datetime.fromtimestamp(
        (now() if cutoff is None else cutoff) / 1e6, datetime.UTC
    )
    return open_official(where).garbage_collect(moment)


def live(where: Where) -> dict[str, Any]:
    """Each version that a branch or tag leads to, with all of its data."""
    return read_everything(open_official(where), detached=False)


def set_times(where: Path, microseconds: int) -> None:
    for path in where.rglob("*"):
        if path.is_file():
            os.utime(path, ns=(microseconds * 1000, microseconds * 1000))


def age_all(where: Path, seconds: float) -> None:
    """Make every file older, as if it had been there for long."""
    for path in where.rglob("*"):
        if path.is_file():
            status = path.stat()
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - int(seconds * 1e9)))
