"""Which snapshots are looked at, in what order, and which refs lead to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from icectl.errors import ObjectNotFoundError
from icectl.model.ids import SnapshotId
from icectl.ops.validate.problem import UNREADABLE
from icectl.repository.ancestry import find_cycles
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.repository import Repository


@dataclass(slots=True)
class History:
    parents: dict[SnapshotId, SnapshotId | None]
    """Of the chosen snapshots, and of all that they descend from."""
    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]
    whole: bool
    """Whether nothing was left out."""
    _refs: dict[SnapshotId, list[tuple[str, str]]] | None = None
    """That point at each."""
    _children: dict[SnapshotId, list[SnapshotId]] = field(default_factory=dict)

    def ancestry(self, tip: SnapshotId) -> Iterator[SnapshotId]:
        seen: set[SnapshotId] = set()
        next_id: SnapshotId | None = tip
        while next_id is not None and next_id not in seen and next_id in self.parents:
            seen.add(next_id)
            yield next_id
            next_id = self.parents[next_id]

    def parents_first(self) -> Iterator[SnapshotId]:
        """Each snapshot once, after its parent, one line of descent after the other.

        A cycle has no first snapshot; it is entered at the first one that was found.
        """
        children: dict[SnapshotId, list[SnapshotId]] = defaultdict(list)
        roots = []
        for snapshot_id, parent in self.parents.items():
            if parent is not None and parent in self.parents:
                children[parent].append(snapshot_id)
            else:
                roots.append(snapshot_id)
        on_cycles = (cycle[0] for cycle in self.cycles())
        seen: set[SnapshotId] = set()
        for start in (*roots, *on_cycles):
            pending = [start]
            while pending:
                snapshot_id = pending.pop()
                if snapshot_id not in seen:
                    seen.add(snapshot_id)
                    yield snapshot_id
                    pending += children.get(snapshot_id, ())

    def cycles(self) -> Iterator[list[SnapshotId]]:
        return find_cycles(self.parents)

    def num_children(self) -> dict[SnapshotId, int]:
        counts = dict.fromkeys(self.parents, 0)
        for parent in self.parents.values():
            if parent in counts:
                counts[parent] += 1
        return counts

    def refs_to(self, snapshots: Collection[SnapshotId]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The branches and the tags that lead to one of the snapshots."""
        if self._refs is None:
            self._refs, self._children = defaultdict(list), defaultdict(list)
            for kind, refs in (("branch", self.branches), ("tag", self.tags)):
                for name in refs:
                    self._refs[refs[name]].append((kind, name))
            for snapshot_id, parent in self.parents.items():
                if parent is not None:
                    self._children[parent].append(snapshot_id)
        # All that descends from one of them: a list for each snapshot would be quadratic.
        descendants = set(snapshots)
        pending = list(descendants)
        while pending:
            for child in self._children.get(pending.pop(), ()):
                if child not in descendants:
                    descendants.add(child)
                    pending.append(child)
        found = {ref for snapshot_id in descendants for ref in self._refs.get(snapshot_id, ())}
        return (
            tuple(sorted(name for kind, name in found if kind == "branch")),
            tuple(sorted(name for kind, name in found if kind == "tag")),
        )

    def last_sound(
        self, branches: Iterable[str], tags: Iterable[str], unsound: Collection[SnapshotId]
    ) -> SnapshotId | None:
        """The newest sound version behind these refs; main's, where main is one of them."""
        tips = [
            self.branches[name] for name in sorted(branches, key=lambda n: n != DEFAULT_BRANCH)
        ] + [self.tags[name] for name in tags]
        for tip in tips:
            for snapshot_id in self.ancestry(tip):
                if snapshot_id not in unsound:
                    return snapshot_id
        return None


def read_history(repository: Repository, refs: Collection[str]) -> History:
    """The history that the refs lead to; without refs, all of it.

    Up to spec version 1 the files themselves know their parents; one that cannot be read ends
    its line here, and the check of that file tells why.
    """
    tips = [repository.resolve(ref).snapshot_id for ref in refs]
    branches, tags = repository.branches(), repository.tags()
    if repository.info is not None:
        parents = {info.id: info.parent_id for info in repository.info.snapshots}
    else:
        parents = _read_parents(repository, tips or [*branches.values(), *tags.values()])
    history = History(parents, branches, tags, not refs)
    if refs:
        chosen = {snapshot_id for tip in tips for snapshot_id in history.ancestry(tip)}
        history.parents = {key: value for key, value in parents.items() if key in chosen}
    return history


def _read_parents(
    repository: Repository, tips: Iterable[SnapshotId]
) -> dict[SnapshotId, SnapshotId | None]:
    parents: dict[SnapshotId, SnapshotId | None] = {}
    for tip in tips:
        next_id: SnapshotId | None = tip
        while next_id is not None and next_id not in parents:
            parents[next_id] = None
            try:
                parents[next_id] = repository.snapshot_info(next_id).parent_id
            except (*UNREADABLE, ObjectNotFoundError):
                break
            next_id = parents[next_id]
    return parents
