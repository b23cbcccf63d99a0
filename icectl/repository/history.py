"""The history of a repository: parents, refs, and everything that follows from them.

The only module that walks from snapshot to parent. A repository may have 100,000 snapshots on one
branch, so each walk is iterative and linear, and a damaged history with a cycle ends every one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from icectl.errors import FormatError
from icectl.format.repo import RepoFile
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    RepoInfo,
    SnapshotInfo,
    infos_by_id,
    parents_of,
    pruned_logs_of,
    times_of,
)
from icectl.model.snapshot import Snapshot
from icectl.repository.edits import DEFAULT_BRANCH

if TYPE_CHECKING:
    from icectl.model.node_columns import SnapshotColumns

Id = TypeVar("Id", bound=Hashable)
AnySnapshot = TypeVar("AnySnapshot", "Snapshot", "SnapshotColumns")
Parents = Mapping[SnapshotId, SnapshotId | None]


def walk(
    start: Id | None, parent_of: Callable[[Id], Id | None], seen: set[Id] | None = None
) -> Iterator[Id]:
    """`start` and its ancestors, nearest first, up to a root or to one in `seen`.

    Each one is added to `seen`, so that several walks visit nothing twice. A walk whose last
    snapshot has a parent ended at one that was seen; without other walks, that is a cycle.
    """
    seen = set() if seen is None else seen
    next_id = start
    while next_id is not None and next_id not in seen:
        seen.add(next_id)
        yield next_id
        next_id = parent_of(next_id)


def find_reachable(tips: Iterable[Id], parent_of: Callable[[Id], Id | None]) -> set[Id]:
    """The tips and all their ancestors."""
    seen: set[Id] = set()
    for tip in tips:
        for _ in walk(tip, parent_of, seen):
            pass
    return seen


def find_nearest(
    starts: Iterable[Id],
    parent_of: Callable[[Id], Id | None],
    is_chosen: Callable[[Id], bool],
) -> dict[Id, Id | None]:
    """For each start the nearest chosen one of its ancestry, which may be itself; else None."""
    nearest: dict[Id, Id | None] = {}
    for start in starts:
        passed: dict[Id, None] = {}
        id_: Id | None = start
        while id_ is not None and id_ not in nearest and not is_chosen(id_):
            if id_ in passed:
                raise FormatError(f"the ancestry of snapshot {start} contains a cycle at {id_}")
            passed[id_] = None
            id_ = parent_of(id_)
        found = None if id_ is None else nearest.get(id_, id_)
        nearest.update(dict.fromkeys((start, *passed), found))
    return nearest


def find_cycles(parents: Mapping[Id, Id | None]) -> Iterator[list[Id]]:
    """The members of each cycle, from child to parent. An unknown parent ends an ancestry."""
    done: set[Id] = set()
    for start in parents:
        path = [*walk(start, parents.get, done)]
        end = parents.get(path[-1]) if path else None
        if end is not None and end in path:
            yield path[path.index(end) :]


def read_ancestors(
    tips: Iterable[SnapshotId],
    read: Callable[[Set[SnapshotId]], Iterable[AnySnapshot]],
    known: Set[SnapshotId] = frozenset(),
) -> Iterator[AnySnapshot]:
    """The snapshots and their ancestors as their files name them, except the known ones.

    Files of different branches are independent: each call of `read` gets one generation.
    """
    found = set(known)
    generation = set(tips) - found
    while generation:
        found |= generation
        parents: set[SnapshotId] = set()
        for snapshot in read(generation):
            if snapshot.parent_id is not None:
                parents.add(snapshot.parent_id)
            yield snapshot
        generation = parents - found


def logs_of_skipped(
    ancestors: Sequence[SnapshotId], pruned_logs: Mapping[SnapshotId, tuple[SnapshotId, ...]]
) -> tuple[SnapshotId, ...]:
    """The transaction logs, oldest first, that a snapshot needs from ancestors it will skip.

    The ancestors are in the order of a walk, nearest first.
    """
    logs: list[SnapshotId] = []
    for ancestor in reversed(ancestors):
        logs += pruned_logs.get(ancestor, ())
        logs.append(ancestor)
    return tuple(logs)


class History:
    """Snapshots with their parents, and the branches and tags that lead to them."""

    whole = True
    """Whether nothing was left out."""

    def __init__(
        self,
        parents: Parents,
        branches: Mapping[str, SnapshotId],
        tags: Mapping[str, SnapshotId],
    ) -> None:
        self.parents = parents
        self.branches = branches
        self.tags = tags

    def restricted_to(self, tips: Iterable[SnapshotId]) -> History:
        """Only these snapshots and their ancestors, with all the refs."""
        chosen = {id_ for tip in tips for id_ in self.intact_ancestry(tip)}
        part = {id_: parent for id_, parent in self.parents.items() if id_ in chosen}
        history = History(part, self.branches, self.tags)
        history.whole = False
        return history

    @cached_property
    def reachable(self) -> frozenset[SnapshotId]:
        """From branches and tags."""
        tips = (*self.branches.values(), *self.tags.values())
        return frozenset(find_reachable(tips, self.parents.__getitem__))

    def ancestry(self, tip: SnapshotId) -> Iterator[SnapshotId]:
        """The snapshot and its ancestors, newest first; `FormatError` at a cycle or a gap."""
        parents = self.parents
        seen: set[SnapshotId] = set()
        next_id: SnapshotId | None = tip
        while next_id is not None:
            if next_id in seen or next_id not in parents:
                raise FormatError(f"the ancestry of snapshot {tip} is damaged at {next_id}")
            seen.add(next_id)
            yield next_id
            next_id = parents[next_id]

    def parent_of(self, snapshot_id: SnapshotId) -> SnapshotId | None:
        """`FormatError` if the snapshot is unknown."""
        try:
            return self.parents[snapshot_id]
        except KeyError:
            raise FormatError(f"the ancestry is damaged at snapshot {snapshot_id}") from None

    def intact_ancestry(self, tip: SnapshotId) -> Iterator[SnapshotId]:
        """The snapshot and its ancestors, newest first, up to a cycle or a gap."""
        parents = self.parents
        if tip in parents:
            yield from walk(
                tip, lambda id_: parent if (parent := parents[id_]) in parents else None
            )

    def cycles(self) -> Iterator[list[SnapshotId]]:
        return find_cycles(self.parents)

    @cached_property
    def children(self) -> Mapping[SnapshotId, list[SnapshotId]]:
        """By parent, also by one that is unknown; a snapshot without children has no entry."""
        children: dict[SnapshotId, list[SnapshotId]] = defaultdict(list)
        for snapshot_id, parent in self.parents.items():
            if parent is not None:
                children[parent].append(snapshot_id)
        return dict(children)

    def num_children(self) -> dict[SnapshotId, int]:
        return {
            snapshot_id: len(self.children.get(snapshot_id, ())) for snapshot_id in self.parents
        }

    def parents_first(self) -> Iterator[SnapshotId]:
        """Each snapshot once, after its parent, one line of descent after the other.

        A cycle has no first snapshot; it is entered at the first one that was found.
        """
        roots = (id_ for id_, parent in self.parents.items() if parent not in self.parents)
        on_cycles = (cycle[0] for cycle in self.cycles())
        return self._descend((*roots, *on_cycles))

    def descendants(self, snapshots: Iterable[SnapshotId]) -> Iterator[SnapshotId]:
        """The snapshots, and all that descend from them."""
        return self._descend(snapshots)

    def refs_to(self, snapshots: Collection[SnapshotId]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The branches and the tags that lead to one of the snapshots."""
        # By descendants: a list of refs for each snapshot would be quadratic.
        found = {ref for id_ in self.descendants(snapshots) for ref in self._refs_at.get(id_, ())}
        return (
            tuple(sorted(name for kind, name in found if kind == "branch")),
            tuple(sorted(name for kind, name in found if kind == "tag")),
        )

    def last_sound(
        self, branches: Iterable[str], tags: Iterable[str], unsound: Collection[SnapshotId]
    ) -> SnapshotId | None:
        """The newest sound version behind these refs; main's, where main is one of them."""
        names = sorted(branches, key=lambda name: name != DEFAULT_BRANCH)
        tips = [*(self.branches[name] for name in names), *(self.tags[name] for name in tags)]
        versions = (id_ for tip in tips for id_ in self.intact_ancestry(tip))
        return next((id_ for id_ in versions if id_ not in unsound), None)

    @cached_property
    def _refs_at(self) -> Mapping[SnapshotId, list[tuple[str, str]]]:
        refs_at: dict[SnapshotId, list[tuple[str, str]]] = defaultdict(list)
        for kind, refs in (("branch", self.branches), ("tag", self.tags)):
            for name, target in refs.items():
                refs_at[target].append((kind, name))
        return dict(refs_at)

    def _descend(self, starts: Iterable[SnapshotId]) -> Iterator[SnapshotId]:
        seen: set[SnapshotId] = set()
        for start in starts:
            pending = [start]
            while pending:
                snapshot_id = pending.pop()
                if snapshot_id not in seen:
                    seen.add(snapshot_id)
                    yield snapshot_id
                    pending += self.children.get(snapshot_id, ())


class State(History):
    """The refs and the snapshots of a repository at one moment, now or in the past."""

    def __init__(
        self,
        listed: Sequence[SnapshotInfo],
        branches: Mapping[str, SnapshotId],
        tags: Mapping[str, SnapshotId],
        deleted_tags: Collection[str] = (),
    ) -> None:
        super().__init__(parents_of(listed), branches, tags)
        self._listed = listed
        self.deleted_tags = deleted_tags

    @cached_property
    def snapshots(self) -> Mapping[SnapshotId, SnapshotInfo]:
        return infos_by_id(self._listed)

    @cached_property
    def flushed_at(self) -> Mapping[SnapshotId, int]:
        return times_of(self._listed)

    @cached_property
    def pruned_logs(self) -> Mapping[SnapshotId, tuple[SnapshotId, ...]]:
        """Of those snapshots that have any."""
        return pruned_logs_of(self._listed)

    @cached_property
    def logs(self) -> frozenset[SnapshotId]:
        """Whose transaction logs the reachable snapshots need: their own and the pruned ones."""
        logs = set(self.reachable)
        for snapshot_id, pruned in self.pruned_logs.items():
            if snapshot_id in self.reachable:
                logs.update(pruned)
        return frozenset(logs)


def state_of(info: RepoInfo | RepoFile) -> State:
    """Of a `RepoFile`, the updates are not decoded."""
    return State(
        info.snapshots,
        {ref.name: ref.snapshot_id for ref in info.branches},
        {ref.name: ref.snapshot_id for ref in info.tags},
        info.deleted_tags,
    )
