"""Walks over parents: linear and iterative, and a damaged history ends each of them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from icectl.errors import FormatError
from icectl.model.ids import SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.repository.history import (
    History,
    State,
    find_cycles,
    find_nearest,
    find_reachable,
    walk,
)
from tests.repository.builders import sid

# 1 <- 2 <- 3 <- 4 and 2 <- 5; 7 <- 8 is on no ref; the parent of 9 is unknown.
PARENTS = {1: None, 2: 1, 3: 2, 4: 3, 5: 2, 7: 1, 8: 7, 9: 10}


def parents(numbers: dict[int, int | None]) -> dict[SnapshotId, SnapshotId | None]:
    return {sid(one): None if other is None else sid(other) for one, other in numbers.items()}


def history(numbers: dict[int, int | None] = PARENTS) -> History:
    return History(parents(numbers), {"main": sid(4), "side": sid(5)}, {"v1": sid(3)})


def test_several_walks_visit_nothing_twice() -> None:
    seen: set[SnapshotId] = set()
    known = history().parents
    assert list(walk(sid(4), known.__getitem__, seen)) == [sid(4), sid(3), sid(2), sid(1)]
    assert list(walk(sid(5), known.__getitem__, seen)) == [sid(5)]
    assert find_reachable([sid(5), sid(3)], known.__getitem__) == set(map(sid, (5, 2, 1, 3)))


def test_the_nearest_chosen_ancestor() -> None:
    known = history()
    chosen = {sid(1), sid(3)}
    starts = list(map(sid, (4, 3, 5, 8)))
    found = find_nearest(starts, known.parent_of, chosen.__contains__)
    assert [found[start] for start in starts] == list(map(sid, (3, 3, 1, 1)))
    assert find_nearest([sid(4)], known.parent_of, lambda _: False)[sid(4)] is None


def test_reachable_is_what_refs_lead_to() -> None:
    assert history().reachable == set(map(sid, (1, 2, 3, 4, 5)))


@pytest.mark.parametrize("numbers", [PARENTS, {4: 3, 3: 2, 2: 4}, {4: 4}])
def test_a_gap_and_a_cycle_end_an_ancestry(numbers: dict[int, int | None]) -> None:
    damaged, tip = history(numbers), sid(9 if 9 in numbers else 4)
    found = list(damaged.intact_ancestry(tip))
    assert found == [tip] if len(numbers) != 3 else [sid(4), sid(3), sid(2)]
    with pytest.raises(FormatError):
        list(damaged.ancestry(tip))
    assert not list(damaged.intact_ancestry(sid(99)))


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (PARENTS, []),
        ({1: 1}, [[1]]),
        ({1: 2, 2: 3, 3: 2}, [[2, 3]]),
        ({1: 2, 2: 1, 3: 1, 4: 5, 5: 4}, [[1, 2], [4, 5]]),
    ],
)
def test_cycles(numbers: dict[int, int | None], expected: list[list[int]]) -> None:
    assert list(find_cycles(numbers)) == expected


@pytest.mark.parametrize("numbers", [PARENTS, {1: None, 2: 3, 3: 4, 4: 2, 5: 4}])
def test_parents_come_first_and_nothing_is_left_out(numbers: dict[int, int | None]) -> None:
    damaged = history(numbers)
    order = list(damaged.parents_first())
    assert sorted(order) == sorted(damaged.parents)
    place = {id_: number for number, id_ in enumerate(order)}
    late = [id_ for id_, parent in damaged.parents.items() if parent in place]
    in_cycle = {id_ for cycle in damaged.cycles() for id_ in cycle}
    assert all(
        place[parent] < place[id_]
        for id_ in late
        if id_ not in in_cycle and (parent := damaged.parents[id_]) is not None
    )
    assert sum(damaged.num_children().values()) == len(late)


def test_refs_to_a_snapshot_are_those_of_its_descendants() -> None:
    assert history().refs_to([sid(2)]) == (("main", "side"), ("v1",))
    assert history().refs_to([sid(5), sid(8)]) == (("side",), ())


def test_the_last_sound_version_is_main_s() -> None:
    found = history().last_sound(("side", "main"), ("v1",), {sid(4)})
    assert found == sid(3)
    assert history().last_sound(("side",), (), {sid(5), sid(2), sid(1)}) is None


def test_a_part_of_a_history_knows_that_it_is_one() -> None:
    part = history().restricted_to([sid(5)])
    assert set(part.parents) == set(map(sid, (5, 2, 1)))
    assert not part.whole
    assert history().whole


def test_a_state_needs_the_logs_of_pruned_ancestors() -> None:
    infos = [
        SnapshotInfo(sid(1), None, 0, ""),
        SnapshotInfo(sid(4), sid(1), 0, "", None, (sid(3),)),
    ]
    state = State(infos, {"main": sid(4)}, {})
    assert state.logs == {sid(1), sid(3), sid(4)}


def test_a_long_history_is_walked_without_recursion() -> None:
    count = 100_000
    line = {1: None} | {number: before for before, number in pairwise(range(1, count + 1))}
    long = History(parents(line), {"main": sid(count)}, {})
    assert len(long.reachable) == count
    assert sum(1 for _ in long.parents_first()) == count
    assert not list(long.cycles())
    assert long.refs_to([sid(1)]) == (("main",), ())
