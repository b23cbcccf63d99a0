"""Small repo infos and repositories for tests that need no official package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

from icectl.format.repo import encode_repo
from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.model.repo import (
    Ref,
    RepoInfo,
    RepoInitializedUpdate,
    RepoStatus,
    SnapshotInfo,
    Update,
)
from icectl.storage.memory import MemoryStorage

_names = count()


def sid(number: int) -> SnapshotId:
    return SnapshotId(number.to_bytes(12, "big"))


def make_info(
    parents: Mapping[int, int | None] | None = None,
    branches: Mapping[str, int] | None = None,
    tags: Mapping[str, int] | None = None,
    pruned: Mapping[int, Iterable[int]] | None = None,
) -> RepoInfo:
    """Snapshots by number with the number of their parent; None is the initial snapshot's child."""
    snapshots = [SnapshotInfo(INITIAL_SNAPSHOT_ID, None, 1, "Repository initialized")]
    for number, parent in (parents or {}).items():
        logs = tuple(sid(log) for log in (pruned or {}).get(number, ()))
        snapshots.append(
            SnapshotInfo(
                sid(number),
                INITIAL_SNAPSHOT_ID if parent is None else sid(parent),
                number + 1,
                f"commit {number}",
                None,
                logs or None,
            )
        )
    return RepoInfo(
        spec_version=2,
        tags=tuple(Ref(name, sid(number)) for name, number in sorted((tags or {}).items())),
        branches=tuple(
            Ref(name, sid(number) if number else INITIAL_SNAPSHOT_ID)
            for name, number in sorted({"main": 0, **(branches or {})}.items())
        ),
        deleted_tags=(),
        snapshots=tuple(sorted(snapshots, key=lambda snapshot: snapshot.id)),
        status=RepoStatus(0, 1),
        metadata=None,
        latest_updates=(Update(RepoInitializedUpdate(), 1),),
    )


def memory_repository(info: RepoInfo | None = None) -> MemoryStorage:
    storage = MemoryStorage(f"test-{next(_names)}")
    storage.put_if_absent("repo", encode_repo(info or make_info()))
    return storage
