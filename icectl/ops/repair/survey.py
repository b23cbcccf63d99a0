"""What `validate` finds in one state of a repository, as facts about its files."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from icectl.checks.problem import Problem
from icectl.checks.rules import Level
from icectl.model.ids import ManifestId, SnapshotId
from icectl.ops.repair.step import snapshot_of
from icectl.ops.validate.metadata import check_metadata
from icectl.ops.validate.refs import check_ancestry, read_history
from icectl.ops.validate.report import Report
from icectl.pipeline.local_engine import LocalEngine
from icectl.pipeline.progress import Progress
from icectl.repository.history import History
from icectl.repository.repository import Repository

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
