"""Versions that cannot be read, or refer to what is lost: refs move to the newest sound ancestor,
and the versions leave the history.

In spec version 1 only the snapshot files name parents, so the ancestors of an unreadable one are
unknown. Its parent is a snapshot without children and refs; if there is exactly one, a branch can
go back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from icectl.checks.snapshot import CheckedNodes, check_snapshot
from icectl.errors import FormatError, StorageError, UnsupportedError
from icectl.format.snapshot import encode_snapshot
from icectl.format.values import decode_metadata
from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.model.repo import ExpirationRanUpdate, RepoInfo, SnapshotInfo
from icectl.model.snapshot import Snapshot
from icectl.ops.repair import NamedStep
from icectl.ops.repair.steps import (
    LOST_CHUNK,
    LOST_MANIFEST,
    UNREADABLE_SNAPSHOT,
    Step,
    Survey,
    key_of,
    list_some,
    put_derived,
    repo_step,
    snapshot_of,
)
from icectl.pipeline.objects import ObjectKind
from icectl.repository import edits
from icectl.repository.edits import Edited
from icectl.repository.history import state_of
from icectl.repository.initialize import MESSAGE, ROOT_METADATA
from icectl.repository.open import open_repository
from icectl.repository.reparent import drop_snapshots
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage

NOTE = (
    "in spec version 1 only a snapshot's own file names its parent, so nothing before an "
    "unreadable snapshot can be found from it; restore the file, or move the refs by hand"
)


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
                NamedStep.DELETE_TAG,
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


def plan_versions(repository: Repository, survey: Survey, notes: list[str]) -> Iterator[Step]:
    """Older versions that refer to what is lost leave the history, and so do their tags."""
    damaged = survey.affected((*LOST_MANIFEST, *LOST_CHUNK)) - survey.unreadable
    if not damaged:
        return
    if repository.info is None:
        notes.append(
            "in spec version 1 older versions that refer to lost files stay in the history; "
            "an expiration releases them"
        )
        return
    released, tags = _find_versions(repository.info, damaged)
    if not released:
        return

    def edit(info: RepoInfo) -> Edited:
        released, tags = _find_versions(info, damaged)
        edited = replace(
            info,
            tags=tuple(ref for ref in info.tags if ref.name not in tags),
            deleted_tags=tuple(sorted({*info.deleted_tags, *tags}, key=str.encode)),
        )
        return drop_snapshots(edited, released), ExpirationRanUpdate()

    listed = {one.id: one for one in repository.info.snapshots}
    yield repo_step(
        NamedStep.RELEASE_VERSIONS,
        "remove the older versions that refer to lost chunks from the history",
        edit,
        loses=(
            *list_some((describe(listed[id_]) for id_ in sorted(released)), "snapshots"),
            *(f"the tag {name}: its name cannot be used again" for name in sorted(tags)),
        ),
        by_name=True,
    )


def _find_versions(info: RepoInfo, damaged: set[SnapshotId]) -> tuple[set[SnapshotId], set[str]]:
    """Those that can go, with their tags: branches keep what they point to."""
    state = state_of(info)
    released = (damaged & state.snapshots.keys()) - set(state.branches.values())
    return released, {name for name, target in state.tags.items() if target in released}


def plan_branches_v1(repository: Repository, survey: Survey, notes: list[str]) -> Iterator[Step]:
    lost = {name: tip for name, tip in repository.branches().items() if tip in survey.unreadable}
    if survey.unreadable and len(survey.unreadable) > len(set(lost.values())):
        notes.append(NOTE)
    if len(set(lost.values())) != 1:
        if lost and NOTE not in notes:
            notes.append(NOTE)
        return
    ends = [*_find_ends(repository)]
    if len(ends) != 1:
        if NOTE not in notes:
            notes.append(NOTE)
        return
    (target,) = ends
    tip = next(iter(lost.values()))
    path = ObjectKind.SNAPSHOT.path(tip)
    is_tagged = tip in repository.tags().values()
    for number, name in enumerate(sorted(lost)):

        def reset(storage: Storage, name: str = name) -> None:
            open_repository(storage).refs.reset_branch(name, target, expect=tip)

        def simulate(state: Repository, name: str = name) -> Repository:
            return replace(state, branch_tips={**state.branch_tips, name: target})

        is_last = number == len(lost) - 1 and not is_tagged
        yield Step(
            "reset_branch",
            f"branch:{name}",
            f"reset the branch {name} to {target}, the only snapshot that it can have followed",
            reset,
            (f"the snapshot {tip}",),
            frozenset(
                key_of(problem)
                for problem, _ in survey.problems
                if is_last and problem.object == path
            ),
            simulate=simulate,
        )


def _find_ends(repository: Repository) -> Iterator[SnapshotId]:
    """Readable snapshots that are no other's parent, and that no ref reaches."""
    found: set[SnapshotId] = set()
    parents: set[SnapshotId] = set()
    for snapshot_id in repository.find_snapshots(""):
        try:
            info = repository.snapshot_info(snapshot_id)
        except (FormatError, UnsupportedError, StorageError):
            continue
        found.add(snapshot_id)
        if info.parent_id is not None:
            parents.add(info.parent_id)
    refs = {*repository.branches().values(), *repository.tags().values()}
    yield from sorted(found - parents - refs)
