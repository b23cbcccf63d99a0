"""Repositories with many operations: commits with manifests, expirations, changes of refs.

Learnt about its API (2.3.0): a commit takes a few milliseconds on local disk, a change of a ref
less; each writes a backup of `repo` with up to `num_updates_per_repo_info_file` operations.
"""

from __future__ import annotations

import os
from pathlib import Path

import icechunk as ic

from icectl.model.ids import ChunkId
from tests.official.histories import commit, create
from tests.official.reading import Where


def many_manifests(where: Where, n: int) -> ic.Repository:
    """`n` commits on main, each with a snapshot and a manifest of one native chunk."""
    repo = create(where, inline_chunk_threshold_bytes=0)
    for number in range(n):
        with commit(repo, f"commit {number}") as root:
            if number == 0:
                root.create_array("a", shape=(1,), chunks=(1,), dtype="i8", compressors=None)
            root["a"][0] = number + 1
    return repo


def many_expirations(where: Where, n: int, *, every: int = 4, kept: int = 240) -> ic.Repository:
    """`n` commits on main; after each `every` of them all but the newest `kept` are expired.

    Nothing is collected: what was released is still there, and the oldest kept snapshot lists
    the transaction logs of all its released ancestors.
    """
    repo = create(where)
    moments = []
    for number in range(n):
        with commit(repo, f"commit {number}") as root:
            root.attrs["number"] = number
        moments.append(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
        if number % every == every - 1:
            repo.expire_snapshots(moments[-kept:][0])
    return repo


def many_operations(where: Where, n: int, *, per_file: int = 100) -> ic.Repository:
    """`n` changes of refs; the ops log goes through backups of `per_file` operations each."""
    repo = create(where, num_updates_per_repo_info_file=per_file)
    with commit(repo, "the only commit") as root:
        root.attrs["real"] = True
    tip = repo.lookup_branch("main")
    for number in range(n // 2):
        repo.create_branch(f"side{number}", tip)
        repo.delete_branch(f"side{number}")
    return repo


def many_files(where: str | Path, n: int) -> ic.Repository:
    """A repository with `n` empty chunk files that no version refers to."""
    repo = create(where)
    with commit(repo, "no chunks") as root:
        root.attrs["real"] = True
    chunks = Path(where) / "chunks"
    chunks.mkdir(exist_ok=True)
    directory = os.open(chunks, os.O_RDONLY)
    for number in range(n):
        spread = (number * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "big")
        name = str(ChunkId(spread + number.to_bytes(4, "big")))
        os.mknod(name, dir_fd=directory)
    os.close(directory)
    return repo
