"""Two versions of one large array that differ in a few chunks, for diffs.

The tag `before` is the parent of main's tip, where the chunks differ. The branch `side` begins
at `before` too and has a group of its own, so that neither it nor main is the other's ancestor.
"""

from __future__ import annotations

from pathlib import Path

import icechunk as ic

from tests.official.histories import commit
from tests.official.large import (
    CONTAINER,
    many_virtual_refs,
    set_raw_chunks,
    synthetic_native_refs,
)


def changed_native_refs(where: str | Path, n: int, changed: int) -> ic.Repository:
    """`n` native references, `changed` of them, evenly spread, overwritten on main."""
    repo = synthetic_native_refs(where, n)
    _mark(repo)
    session = repo.writable_session("main")
    set_raw_chunks(session.store, "a", range(0, n, n // changed)[:changed], b"y")
    session.commit("changed")
    return repo


def changed_virtual_refs(where: str | Path, n: int, changed: int) -> ic.Repository:
    """The same with virtual references and compressed locations."""
    repo = many_virtual_refs(where, n)
    _mark(repo)
    session = repo.writable_session("main")
    specs = [
        ic.VirtualChunkSpec([index], f"{CONTAINER}corrected/{index}.nc", 0, 400)
        for index in range(0, n, n // changed)[:changed]
    ]
    assert session.store.set_virtual_refs("v", specs) is None
    session.commit("changed")
    return repo


def _mark(repo: ic.Repository) -> None:
    before = repo.lookup_branch("main")
    repo.create_tag("before", before)
    repo.create_branch("side", before)
    with commit(repo, "side", branch="side") as root:
        root.create_group("side")
