"""Unreadable snapshots: refs move to the newest sound ancestor, children are joined to it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from icectl.checks.snapshot import CheckedNodes, check_snapshot
from icectl.format.snapshot import encode_snapshot
from icectl.format.values import decode_metadata
from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.model.repo import ExpirationRanUpdate, RepoInfo, SnapshotInfo
from icectl.model.snapshot import Snapshot
from icectl.ops.repair.step import (
    Step,
    key_of,
    list_some,
    put_derived,
    repo_step,
    snapshot_of,
)
from icectl.ops.repair.survey import UNREADABLE_SNAPSHOT, Survey
from icectl.pipeline.objects import ObjectKind
from icectl.repository import edits
from icectl.repository.edits import Edited
from icectl.repository.history import state_of
from icectl.repository.initialize import MESSAGE, ROOT_METADATA
from icectl.repository.reparent import drop_snapshots
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage


def describe(info: SnapshotInfo) -> str:
    return f"the snapshot {info.id} ({info.message!r})"


def plan_first_snapshot(repository: Repository, survey: Survey) -> Iterator[Step]:
    """The first snapshot is empty, and `repo` has everything else that is in its file."""
    if repository.info is None or INITIAL_SNAPSHOT_ID not in survey.unreadable:
        return
    info = repository.snapshot_info(INITIAL_SNAPSHOT_ID)
    if (
        info.parent_id is not None
        or info.message != MESSAGE
        or decode_metadata(info.metadata, 2) not in ({}, ROOT_METADATA)
    ):
        return
    snapshot = Snapshot(
        2, info.id, None, (), info.flushed_at, info.message, info.metadata or (), (), ()
    )
    path = ObjectKind.SNAPSHOT.path(info.id)

    def is_sound(data: bytes) -> bool:
        found, problems = check_snapshot(data, info.id, info, CheckedNodes())
        return found is not None and not problems

    def write(storage: Storage) -> None:
        put_derived(storage, path, encode_snapshot(snapshot), is_sound)

    keys = (key_of(problem) for problem, _ in survey.problems if problem.object == path)
    survey.unreadable.discard(info.id)
    yield Step(
        "rewrite_first_snapshot",
        path,
        "write the empty first snapshot again",
        write,
        mends=frozenset(keys),
    )


def plan_branches(repository: Repository, survey: Survey) -> Iterator[Step]:
    """Branches at an unreadable snapshot (V2), each to its newest sound ancestor."""
    assert repository.info is not None
    for name, tip in sorted(repository.branches().items()):
        if tip not in survey.unreadable:
            continue
        lost: list[SnapshotInfo] = []
        for info in repository.ancestry(tip):
            if info.id not in survey.unreadable:
                yield repo_step(
                    "reset_branch",
                    f"reset the branch {name} to {info.id}, its newest sound ancestor",
                    partial(_reset, name=name, target=info.id, expect=tip),
                    object_=f"branch:{name}",
                    loses=list_some((describe(one) for one in lost), "snapshots"),
                )
                break
            lost.append(info)


def _reset(info: RepoInfo, *, name: str, target: SnapshotId, expect: SnapshotId) -> Edited:
    return edits.reset_branch(info, name, target, expect)


def plan_tags(repository: Repository, survey: Survey) -> Iterator[Step]:
    """Tags at an unreadable snapshot (V2): a tag never moves, so it can only be deleted."""
    for name, target in sorted(repository.tags().items()):
        if target in survey.unreadable:
            yield repo_step(
                "delete_tag",
                f"delete the tag {name}, whose snapshot cannot be read",
                partial(_delete_tag, name=name, expect=target),
                object_=f"tag:{name}",
                loses=(f"the tag {name}: its name cannot be used again",),
                by_name=True,
            )


def _delete_tag(info: RepoInfo, *, name: str, expect: SnapshotId) -> Edited:
    edits.check_expected(name, edits.find_ref(info.tags, name, "tag"), expect)
    return edits.delete_tag(info, name)


def plan_release(repository: Repository, survey: Survey) -> Iterator[Step]:
    """Unreadable snapshots that no ref points to leave the list (V2)."""
    info = repository.info
    assert info is not None
    released = _releasable(info, survey.unreadable)
    if not released:
        return
    listed = {one.id: one for one in info.snapshots}

    def edit(info: RepoInfo) -> Edited:
        return drop_snapshots(info, _releasable(info, released)), ExpirationRanUpdate()

    yield repo_step(
        "release_snapshots",
        "remove unreadable snapshots from the history; their children continue at the nearest "
        "sound ancestor",
        edit,
        loses=list_some((describe(listed[id_]) for id_ in sorted(released)), "snapshots"),
        mends=[
            key_of(problem)
            for problem, _ in survey.problems
            if problem.rule.code in UNREADABLE_SNAPSHOT and snapshot_of(problem.object) in released
        ],
    )


def _releasable(info: RepoInfo, unreadable: set[SnapshotId]) -> set[SnapshotId]:
    state = state_of(info)
    tips = {*state.branches.values(), *state.tags.values()}
    return (unreadable & state.snapshots.keys()) - tips
