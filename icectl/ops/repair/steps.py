"""What `validate` finds in a state of a repository, and the steps that mend it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from icectl.checks.problem import Problem
from icectl.checks.rules import Level
from icectl.errors import ConflictError, ObjectNotFoundError, PreconditionFailedError
from icectl.model.ids import ManifestId, SnapshotId, encode_base32
from icectl.model.repo import RepoInfo
from icectl.ops.validate.findings import Report
from icectl.ops.validate.history import check_ancestry, read_history
from icectl.ops.validate.metadata import check_metadata
from icectl.pipeline.local_engine import LocalEngine
from icectl.pipeline.progress import Progress
from icectl.repository.backups import YEAR_3000_MILLISECONDS
from icectl.repository.edits import Edited
from icectl.repository.history import History
from icectl.repository.open import repository_at
from icectl.repository.ops_log import BACKUPS, REPO_PATH
from icectl.repository.repository import Repository
from icectl.repository.update import update_repo
from icectl.storage.contract import Storage, VersionedBytes

SHOWN = 10
"""The number of losses of one kind that a step lists one by one."""

Key = tuple[str, str]
"""The code and the object of a finding."""


@dataclass(frozen=True, slots=True)
class LostArray:
    """Chunks of one array that become fill value."""

    path: str
    num_chunks: int
    chunks: tuple[tuple[int, ...], ...]
    """The coordinates of the first ones."""


@dataclass(frozen=True, slots=True)
class Step:
    """One repair."""

    action: str
    """A stable name."""
    object: str
    summary: str
    """An imperative."""
    apply: Callable[[Storage], None]
    loses: tuple[str, ...] = ()
    mends: frozenset[Key] = frozenset()
    """The findings that are gone after the step."""
    by_name: bool = False
    """Whether the step is executed only if it was asked for by name: it loses data."""
    arrays: tuple[LostArray, ...] = ()
    simulate: Callable[[Repository], Repository] = lambda repository: repository
    """The state after the step."""


def repo_step(
    action: str,
    summary: str,
    edit: Callable[[RepoInfo], Edited],
    *,
    object_: str = REPO_PATH,
    loses: tuple[str, ...] = (),
    mends: Iterable[Key] = (),
    by_name: bool = False,
    whatever_status: bool = False,
    accept_older: bool = False,
) -> Step:
    """A step that is one change of `repo`."""

    def apply(storage: Storage) -> None:
        update_repo(storage, edit, whatever_status=whatever_status, accept_older=accept_older)

    def simulate(repository: Repository) -> Repository:
        assert repository.info is not None
        return repository_at(repository.storage, edit(repository.info)[0])

    return Step(
        action, object_, summary, apply, loses, frozenset(mends), by_name, simulate=simulate
    )


def key_of(problem: Problem) -> Key:
    return problem.rule.code, problem.object


def snapshot_of(object_: str) -> SnapshotId:
    """The id in the path of a snapshot or a transaction log."""
    return SnapshotId.parse(object_.rpartition("/")[2])


def list_some(texts: Iterable[str], what: str) -> tuple[str, ...]:
    """The first texts, and how many more there are."""
    found = list(texts)
    rest = len(found) - SHOWN
    return (*found[:SHOWN], *([f"{rest:,} more {what}"] if rest > 0 else []))


def aside_name(path: str, now: int) -> str:
    """Where a damaged file is copied to: a name in `overwritten/` that no backup has."""
    left = YEAR_3000_MILLISECONDS - now // 1000
    return f"{BACKUPS}/damaged-{path.replace('/', '-')}.{left}.{encode_base32(os.urandom(12))}"


def read_if_there(storage: Storage, path: str) -> VersionedBytes | None:
    try:
        return storage.read_versioned(path)
    except ObjectNotFoundError:
        return None


def put_derived(
    storage: Storage, path: str, data: bytes, is_sound: Callable[[bytes], bool]
) -> None:
    """Write a file whose content could be derived, unless a sound one is there by now.

    A damaged one is copied aside first.
    """
    storage.ensure_conditional_writes()
    found = read_if_there(storage, path)
    if found is not None and is_sound(found.data):
        return
    try:
        if found is None:
            storage.ensure_conditional_creates()
            storage.put_if_absent(path, data)
        else:
            storage.put_if_absent(aside_name(path, found.read_at), found.data)
            storage.put_if_match(path, data, found.version)
    except PreconditionFailedError:
        raise changed_meanwhile(path) from None


def changed_meanwhile(path: str) -> ConflictError:
    return ConflictError(
        f"{path} was changed by somebody else during the repair",
        hint="it was left as it is; run the repair again",
    )


UNREADABLE_SNAPSHOT = ("ICE0101", "ICE0102", "ICE0103")
DERIVABLE_LOG = ("ICE0201", "ICE0202", "ICE0203", "ICE0204", "ICE0206", "ICE0209")
"""Missing or damaged. A log that only contradicts the snapshots may be the right one of the two."""
LOST_MANIFEST = ("ICE0301", "ICE0303", "ICE0304", "ICE0309")
"""Missing, or no reader can use it."""
LOST_CHUNK = ("ICE0401", "ICE0402")


@dataclass(slots=True)
class Survey:
    history: History
    problems: list[tuple[Problem, Collection[SnapshotId]]]
    """Each with the snapshots that it affects."""
    unreadable: set[SnapshotId] = field(default_factory=set)
    lost_logs: set[SnapshotId] = field(default_factory=set)
    lost_manifests: set[ManifestId] = field(default_factory=set)
    lost_chunks: dict[str, int] = field(default_factory=dict)
    """By name: how many bytes are there."""
    planned: set[SnapshotId] = field(default_factory=set)
    """Snapshots that a step will write, without anything that is lost."""

    @classmethod
    def of(cls, repository: Repository, level: Level, progress: Progress) -> Survey:
        history = read_history(repository, ())
        report = check_files(repository, history, level, progress)
        report.extend(check_ancestry(repository, history))
        found = cls(history, report.problems)
        found.unreadable = {snapshot_of(one) for one in found.objects(UNREADABLE_SNAPSHOT)}
        found.lost_logs = {snapshot_of(one) for one in found.objects(DERIVABLE_LOG)}
        found.lost_manifests = {
            ManifestId.parse(one.rpartition("/")[2]) for one in found.objects(LOST_MANIFEST)
        }
        for path in found.objects(LOST_CHUNK[:1]):
            found.lost_chunks[path.rpartition("/")[2]] = 0
        for path in found.objects(LOST_CHUNK[1:]):
            size = repository.storage.info(path).size
            found.lost_chunks[path.rpartition("/")[2]] = size or 0
        return found

    def objects(self, codes: Collection[str]) -> Iterator[str]:
        for problem, _ in self.problems:
            if problem.rule.code in codes:
                yield problem.object

    def affected(self, codes: Collection[str]) -> set[SnapshotId]:
        """The snapshots with such a problem."""
        return {
            snapshot_id
            for problem, snapshots in self.problems
            if problem.rule.code in codes
            for snapshot_id in snapshots
        }


def check_files(
    repository: Repository,
    history: History,
    level: Level,
    progress: Progress,
) -> Report:
    """The checks of `validate` from the level `metadata` on, without a limit of findings."""
    report = Report(sys.maxsize)
    if level < Level.METADATA:
        return report
    metadata = check_metadata(repository, history, report, progress)
    if level >= Level.MANIFESTS:
        from icectl.ops.validate.deep_levels import DeepCheck, check_deep_levels

        check = DeepCheck(repository, history, metadata, level, False, None, 0, None, (), [])
        check_deep_levels(LocalEngine(), check, report, progress)
    return report
