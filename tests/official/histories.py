"""Histories written by the official package: plain ones, long ones, and random ones.

Learnt about its API (2.3.0):
- Spec version 1 (`spec_version=1` at `create`; the same package writes both) has no amend, no
  moves, no flags, no metadata, no status. It has `flush`, resets, tags, `expire_snapshots`.
- `Session.amend` is refused on the initial snapshot and on a commit of moves; `commit` without changes raises unless
  `allow_empty=True`; `rearrange_session` allows only `move`.
- `expire_snapshots` never releases main's tip, and compares `written_at < older_than`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import icechunk as ic
import numpy as np
import zarr

from tests.official.reading import Where, open_official, storage_of


def create(where: Where, spec_version: int = 2, **config: Any) -> ic.Repository:
    """A new repository whose config is stored in it."""
    config.setdefault("inline_chunk_threshold_bytes", 64)
    repo = ic.Repository.create(
        storage_of(where), config=ic.RepositoryConfig(**config), spec_version=spec_version
    )
    repo.save_config()
    return open_official(where)


@contextmanager
def commit(
    repo: ic.Repository,
    message: str,
    *,
    branch: str = "main",
    metadata: dict[str, Any] | None = None,
    amend: bool = False,
) -> Iterator[Any]:
    """Commit (or amend with) what happens to the root group inside the `with`."""
    session = repo.writable_session(branch)
    yield zarr.open_group(session.store, mode="a")
    if amend:
        session.amend(message, metadata=metadata, allow_empty=True)
    else:
        session.commit(message, metadata=metadata, allow_empty=True)


def linear_history(where: Where, commits: int, spec_version: int = 2) -> ic.Repository:
    """`commits` commits on main; each rewrites one native and one inline chunk."""
    repo = create(where, spec_version)
    with commit(repo, "commit 0") as root:
        root.create_array("native", shape=(64,), chunks=(16,), dtype="i8", compressors=None)
        root.create_array("inline", shape=(8,), chunks=(4,), dtype="i4", compressors=None)
    for number in range(1, commits):
        with commit(repo, f"commit {number}", metadata={"number": number}) as root:
            place = number % 4
            root["native"][place * 16 : place * 16 + 16] = np.arange(16) + number
            root["inline"][number % 2 * 4 : number % 2 * 4 + 4] = number
    return repo


def many_commits(
    where: Where, n: int, spec_version: int = 2, *, amends: bool = False
) -> ic.Repository:
    """`n` commits, as cheap as they can be: each changes only the root group's attributes.

    With `amends` every second one takes the place of the one before it.
    """
    repo = create(where, spec_version)
    for number in range(n):
        amend = amends and number % 2 == 1
        message, metadata = f"commit {number} of many", {"number": number}
        with commit(repo, message, metadata=metadata, amend=amend) as root:
            root.attrs["number"] = number
    return repo


class RandomHistory:
    """One random walk; each step is a method, and what it did goes to the log."""

    def __init__(self, repo: ic.Repository, seed: int) -> None:
        self.repo = repo
        self.random = random.Random(seed)
        self.log: list[dict[str, Any]] = []
        self.counter = 0

    def note(self, step: str, **facts: Any) -> None:
        self.log.append({"step": step, **facts})

    def pick_branch(self) -> str:
        return self.random.choice(sorted(self.repo.list_branches()))

    def pick_snapshot(self, branch: str) -> ic.SnapshotInfo:
        return self.random.choice(list(self.repo.ancestry(branch=branch)))

    def fresh_name(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def members(self, root: Any, kind: type) -> list[str]:
        return sorted(path for path, node in root.members(None) if isinstance(node, kind))

    def change(self, root: Any) -> dict[str, Any]:
        """One random change of nodes, metadata or chunks."""
        choose = self.random
        arrays = self.members(root, zarr.Array)
        groups = self.members(root, zarr.Group)
        parent = choose.choice(["", *[f"{group}/" for group in groups]])
        kinds = ["create_array", "create_group", "group_attributes"]
        if arrays:
            kinds += ["write"] * 4 + ["resize", "array_attributes", "delete_array", "recreate"]
        if groups:
            kinds += ["delete_group"]
        kind = choose.choice(kinds)
        if kind == "create_array":
            path = parent + self.fresh_name("array")
            dimensions = choose.randint(1, 3)
            array = root.create_array(
                path,
                shape=tuple(choose.randint(1, 12) for _ in range(dimensions)),
                chunks=tuple(choose.randint(1, 5) for _ in range(dimensions)),
                dtype=choose.choice(["i2", "i8", "f8"]),
                compressors=None,
                fill_value=0,
            )
            if choose.random() < 0.8:
                array[...] = choose.randint(1, 99)
        elif kind == "create_group":
            path = parent + self.fresh_name("group")
            root.create_group(path)
        elif kind == "group_attributes":
            path = choose.choice(["", *groups])
            node = root[path] if path else root
            node.attrs["value"] = choose.randint(0, 10**9)
        elif kind == "delete_group":
            path = choose.choice(groups)
            del root[path]
        else:
            path = choose.choice(arrays)
            array = root[path]
            if kind == "write":
                start = [choose.randrange(length) for length in array.shape]
                stop = [choose.randint(s + 1, n) for s, n in zip(start, array.shape, strict=True)]
                array[tuple(map(slice, start, stop))] = choose.randint(1, 10**4)
            elif kind == "resize":
                array.resize(tuple(choose.randint(1, 14) for _ in array.shape))
            elif kind == "array_attributes":
                array.attrs["value"] = choose.randint(0, 10**9)
            elif kind == "delete_array":
                del root[path]
            else:
                shape, chunks, dtype = array.shape, array.chunks, array.dtype
                root.create_array(path, shape=shape, chunks=chunks, dtype=dtype, overwrite=True)
        return {"change": kind, "path": "/" + path}

    def step_commit(self, branch: str | None = None, *, amend: bool = False) -> None:
        branch = branch or self.pick_branch()
        message = self.fresh_name("commit ")
        with commit(self.repo, message, branch=branch, amend=amend) as root:
            changes = [self.change(root) for _ in range(self.random.randint(1, 3))]
        self.note("amend" if amend else "commit", branch=branch, message=message, changes=changes)

    def step_amend(self) -> None:
        branch = self.pick_branch()
        tip = self.repo.lookup_branch(branch)
        initial = self.repo.lookup_snapshot(tip).parent_id is None
        if not initial and not self.repo.inspect_transaction_log(tip)["moved_nodes"]:
            self.step_commit(branch, amend=True)

    def step_flush(self) -> None:
        session = self.repo.writable_session(self.pick_branch())
        change = self.change(zarr.open_group(session.store, mode="a"))
        if session.has_uncommitted_changes:
            self.note("flush", snapshot=session.flush("detached"), changes=[change])

    def step_move(self) -> None:
        branch = self.pick_branch()
        session = self.repo.rearrange_session(branch)
        if self.repo.lookup_snapshot(session.snapshot_id).parent_id is None:
            return
        move = self.move(session)
        if move is not None:
            session.commit(f"move {move['source']} to {move['target']}")
            self.note("move", branch=branch, **move)

    def move(self, session: ic.Session) -> dict[str, str] | None:
        try:
            root = zarr.open_group(session.store, mode="r")
        except FileNotFoundError:  # another session deleted the root
            return None
        nodes = self.members(root, zarr.Array) + self.members(root, zarr.Group)
        if not nodes:
            return None
        source = "/" + self.random.choice(nodes)
        parents = [
            g for g in self.members(root, zarr.Group) if not f"/{g}/".startswith(source + "/")
        ]
        parent = self.random.choice(["", *[f"/{group}" for group in parents]])
        target = f"{parent}/{self.fresh_name('moved')}"
        session.move(source, target)
        return {"source": source, "target": target}

    def step_branch(self) -> None:
        name = self.fresh_name("branch")
        snapshot = self.pick_snapshot(self.pick_branch()).id
        self.repo.create_branch(name, snapshot)
        self.note("create_branch", name=name, snapshot=snapshot)

    def step_delete_branch(self) -> None:
        others = sorted(self.repo.list_branches() - {"main"})
        if others:
            name = self.random.choice(others)
            self.repo.delete_branch(name)
            self.note("delete_branch", name=name)

    def step_reset(self, branch: str | None = None) -> None:
        branch = branch or self.pick_branch()
        snapshot = self.pick_snapshot(self.pick_branch()).id
        self.repo.reset_branch(branch, snapshot)
        self.note("reset_branch", branch=branch, snapshot=snapshot)

    def step_tag(self) -> None:
        name = self.fresh_name("tag")
        snapshot = self.pick_snapshot(self.pick_branch()).id
        self.repo.create_tag(name, snapshot)
        self.note("create_tag", name=name, snapshot=snapshot)

    def step_delete_tag(self) -> None:
        tags = sorted(self.repo.list_tags())
        if tags:
            name = self.random.choice(tags)
            self.repo.delete_tag(name)
            self.note("delete_tag", name=name)

    def step_expire(self) -> None:
        cutoff = self.pick_snapshot(self.pick_branch()).written_at
        options = {
            "delete_expired_branches": self.random.random() < 0.3,
            "delete_expired_tags": self.random.random() < 0.3,
        }
        released = self.repo.expire_snapshots(cutoff, **options)
        self.note("expire", older_than=cutoff.isoformat(), released=sorted(released), **options)

    def step_empty_commit(self) -> None:
        branch = self.pick_branch()
        session = self.repo.writable_session(branch)
        session.commit(self.fresh_name("empty "), allow_empty=True)
        self.note("empty_commit", branch=branch)

    def step_rebase(self) -> None:
        """Two sessions from one tip: the second is rebased onto what the first committed."""
        branch = self.pick_branch()
        first, second = (self.repo.writable_session(branch) for _ in range(2))
        roots = [zarr.open_group(session.store, mode="a") for session in (first, second)]
        changes = [[self.change(root) for _ in range(self.random.randint(1, 3))] for root in roots]
        recreated = [
            {one["path"] for one in made if one["change"] == "recreate"} for made in changes
        ]
        if recreated[0] & recreated[1]:
            return  # the official package would write two nodes with one path
        if self.random.random() < 0.4:
            changes.append(self.delete_from_both(roots))
        self.commit_rebased(first, second, branch, changes)

    def delete_from_both(self, roots: list[Any]) -> Any:
        common = set.intersection(*({path for path, _ in root.members(None)} for root in roots))
        if not common:
            return None
        path = self.random.choice(sorted(common))
        for root in roots:
            del root[path]
        return {"change": "delete from both", "path": "/" + path}

    def commit_rebased(
        self, first: ic.Session, second: ic.Session, branch: str, changes: Any
    ) -> None:
        first.commit(self.fresh_name("first "), allow_empty=True)
        selection = self.random.choice([ic.VersionSelection.UseOurs, ic.VersionSelection.UseTheirs])
        solver = ic.BasicConflictSolver(on_chunk_conflict=selection)
        message = self.fresh_name("rebased ")
        try:
            second.commit(message, rebase_with=solver, rebase_tries=3, allow_empty=True)
        except ic.IcechunkError:
            message = "refused"
        self.note("rebase", branch=branch, message=message, changes=changes)

    def step_rebase_onto_reset(self) -> None:
        """The branch is reset, and moves on, while a session is open."""
        branch = self.pick_branch()
        session = self.repo.writable_session(branch)
        changes = [self.change(zarr.open_group(session.store, mode="a"))]
        if changes[0]["change"] == "recreate":
            return  # as above
        self.step_reset(branch)
        self.commit_rebased(self.repo.writable_session(branch), session, branch, changes)

    def step_rebase_move(self) -> None:
        """A move is rebased onto a commit, or a commit onto a move."""
        branch = self.pick_branch()
        if self.repo.lookup_snapshot(self.repo.lookup_branch(branch)).parent_id is None:
            return
        writing = self.repo.writable_session(branch)
        moving = self.repo.rearrange_session(branch)
        changes = [self.change(zarr.open_group(writing.store, mode="a"))]
        move = self.move(moving)
        if move is None:
            return
        pair = [writing, moving]
        self.random.shuffle(pair)
        self.commit_rebased(pair[0], pair[1], branch, [*changes, move])

    def step_amend_after_reset(self) -> None:
        branch = self.pick_branch()
        self.step_reset(branch)
        if self.repo.lookup_snapshot(self.repo.lookup_branch(branch)).parent_id is not None:
            with suppress(ic.IcechunkError):  # on a commit of moves
                self.step_commit(branch, amend=True)

    def pick_array(self, session: ic.Session) -> str | None:
        arrays = self.members(zarr.open_group(session.store, mode="a"), zarr.Array)
        return self.random.choice(arrays) if arrays else None

    def step_reindex(self) -> None:
        """Chunks move along the first axis, and some are left where they were."""
        branch = self.pick_branch()
        session = self.repo.writable_session(branch)
        path = self.pick_array(session)
        if path is None:
            return
        array = zarr.open_array(session.store, path=path, mode="r")
        chunks = -(-array.shape[0] // array.chunks[0])

        def forward(index: Any) -> Any:
            first, *others = index
            return [first + 1, *others] if first + 1 < chunks else None

        session.reindex_array(f"/{path}", forward)
        session.commit(self.fresh_name("reindex "), allow_empty=True)
        self.note("reindex", branch=branch, path="/" + path)

    def step_shift(self) -> None:
        branch = self.pick_branch()
        session = self.repo.writable_session(branch)
        path = self.pick_array(session)
        if path is None:
            return
        dimensions = zarr.open_array(session.store, path=path, mode="r").ndim
        offset = [self.random.randint(-1, 1) for _ in range(dimensions)]
        session.shift_array(f"/{path}", offset)
        session.commit(self.fresh_name("shift "), allow_empty=True)
        self.note("shift", branch=branch, path="/" + path, offset=offset)

    def step_clear(self) -> None:
        """Chunks, or everything below a group, deleted as zarr's store does it."""
        branch = self.pick_branch()
        session = self.repo.writable_session(branch)
        root = zarr.open_group(session.store, mode="a")
        nodes = self.members(root, zarr.Array) + self.members(root, zarr.Group)
        if not nodes:
            return
        path = self.random.choice(nodes)
        chunks = isinstance(root[path], zarr.Array) and self.random.random() < 0.7
        asyncio.run(session.store.delete_dir(f"{path}/c" if chunks else path))
        session.commit(self.fresh_name("clear "), allow_empty=True)
        self.note("clear", branch=branch, path="/" + path, chunks=chunks)

    def step_rewrite(self) -> None:
        branch = self.pick_branch()
        amend = (
            self.repo.spec_version >= 2
            and self.random.random() < 0.3
            and self.repo.lookup_snapshot(self.repo.lookup_branch(branch)).parent_id is not None
        )
        method = "amend" if amend else "new_commit"
        with suppress(ic.IcechunkError):  # an amend on a commit of moves
            self.repo.rewrite_manifests("rewrite", branch=branch, commit_method=method)
            self.note("rewrite", branch=branch, method=method)

    def step_collect(self) -> None:
        self.repo.garbage_collect(self.pick_snapshot(self.pick_branch()).written_at)
        self.note("collect")

    def step_status(self) -> None:
        for availability in (ic.RepoAvailability.read_only, ic.RepoAvailability.online):
            self.repo.set_status(ic.RepoStatus(availability))
        self.note("status")


STEPS_V1 = {
    "commit": 12,
    "flush": 1,
    "branch": 2,
    "delete_branch": 1,
    "reset": 1,
    "tag": 2,
    "delete_tag": 1,
    "expire": 1,
}
STEPS_V2 = STEPS_V1 | {"amend": 2, "move": 3}
CONCURRENT_V1 = {
    "rebase": 4,
    "rebase_onto_reset": 2,
    "reindex": 1,
    "shift": 1,
    "clear": 2,
    "rewrite": 1,
    "collect": 1,
    "empty_commit": 1,
}
"""Weights of what sessions beside each other, and the rest of the API, can write."""
CONCURRENT_V2 = CONCURRENT_V1 | {"rebase_move": 2, "amend_after_reset": 1, "status": 1}


def random_history(
    where: Where,
    seed: int,
    steps: int,
    spec_version: int = 2,
    *,
    weights: dict[str, int] | None = None,
) -> list[dict[str, Any]]:
    """Drive a new repository through `steps` random steps; the log says what was done.

    `weights` overrides how often a kind of step comes (`{"expire": 0}` leaves it out). The same
    seed gives the same steps; ids and times differ, as the package draws them.
    """
    history = RandomHistory(create(where, spec_version), seed)
    kinds = (STEPS_V2 if spec_version >= 2 else STEPS_V1) | (weights or {})
    history.step_commit()
    for kind in history.random.choices(list(kinds), list(kinds.values()), k=steps):
        getattr(history, f"step_{kind}")()
    return history.log
