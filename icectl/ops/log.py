"""The history of a ref, or of the whole repository, newest first: `icectl log`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from icectl.errors import FormatError, ObjectNotFoundError
from icectl.model.ids import SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.repository.commits import Commit, CommitReader, commit_fields
from icectl.repository.history import find_nearest
from icectl.repository.repository import Repository
from icectl.repository.resolve import parse_range

if TYPE_CHECKING:
    from icectl.repository.change_counts import ChangeCounts


@dataclass(frozen=True, slots=True)
class CommitWithChanges(Commit):
    changes: ChangeCounts | None
    """None where the transaction log is missing or damaged, or its generation has none."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    since: int | None = None
    until: int | None = None
    limit: int | None = None
    path: str | None = None
    """Only commits that touched this node or anything below it."""
    with_changes: bool = False


def read_log(repository: Repository, ref: str, options: LogOptions) -> Iterator[Commit]:
    """Yield the ancestry of `ref`, or the commits of a range `A..B`, lazily."""
    infos: Iterable[SnapshotInfo]
    refs = parse_range(repository, ref)
    if refs is None:
        infos = repository.ancestry(repository.resolve(ref).snapshot_id)
    else:
        # With one parent each, `A..B` and `A...B` list the same commits.
        excluded = {
            info.id for info in repository.ancestry(repository.resolve(refs.from_).snapshot_id)
        }
        ancestry = repository.ancestry(repository.resolve(refs.to).snapshot_id)
        infos = takewhile(lambda info: info.id not in excluded, ancestry)
    if options.path is not None:
        from icectl.ops.path_history import read_touching

        infos = read_touching(repository, infos, options.path)
    return _commits(repository, _within_time(infos, options), options)


def read_whole_log(repository: Repository, options: LogOptions) -> Iterator[Commit]:
    """Every snapshot of the repository, on any branch or on none."""
    infos = sorted(repository.all_snapshots(), key=lambda info: (-info.flushed_at, info.id))
    return _commits(repository, _within_time(infos, options), options)


def shown_parents(
    repository: Repository, commits: Iterable[Commit]
) -> Mapping[SnapshotId, SnapshotId | None]:
    """For each commit, its nearest ancestor among the commits: where the graph draws a line to."""
    parents = {commit.id: commit.parent_id for commit in commits}
    nearest = find_nearest(
        (parent for parent in parents.values() if parent is not None and parent not in parents),
        lambda snapshot_id: repository.snapshot_info(snapshot_id).parent_id,
        parents.__contains__,
    )
    return {
        snapshot_id: None if parent is None else nearest.get(parent, parent)
        for snapshot_id, parent in parents.items()
    }


def _within_time(infos: Iterable[SnapshotInfo], options: LogOptions) -> Iterator[SnapshotInfo]:
    for info in infos:
        if options.since is not None and info.flushed_at < options.since:
            return  # a parent is never newer than its child: writers refuse that
        if options.until is None or info.flushed_at <= options.until:
            yield info


def _commits(
    repository: Repository, infos: Iterator[SnapshotInfo], options: LogOptions
) -> Iterator[Commit]:
    if options.limit is not None:
        infos = islice(infos, min(options.limit, sys.maxsize))
    reader = CommitReader(repository)
    if not options.with_changes:
        yield from map(reader.commit, infos)
        return
    from icectl.pipeline.read_ahead import read_ahead

    for info, changes in read_ahead(lambda info: read_changes_if_there(repository, info), infos):
        yield CommitWithChanges(**commit_fields(reader.commit(info)), changes=changes)


def read_changes_if_there(repository: Repository, info: SnapshotInfo) -> ChangeCounts | None:
    """None for a missing or damaged log: the rest of the commit can still be shown."""
    from icectl.repository.change_counts import read_change_counts

    if info.parent_id is not None and not repository.has_transaction_logs:
        return None
    try:
        return read_change_counts(repository, info)
    except (FormatError, ObjectNotFoundError):
        return None
