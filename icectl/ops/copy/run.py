"""The whole copy: read one state of the source, copy what it needs, publish it.

If an object vanishes at the source, a writer has collected garbage there: the newer state is
planned. If the same state still needs it, the source is damaged, and nothing is published.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from tempfile import TemporaryDirectory

from icectl.checks.listing import missing
from icectl.checks.problem import error_of
from icectl.errors import ConflictError, FormatError, ObjectNotFoundError, StorageError
from icectl.model.ids import SnapshotId
from icectl.model.repo import Availability, ids_of
from icectl.ops.copy.cut_v1 import check_staying, cut_history, staying
from icectl.ops.copy.paths import select_paths
from icectl.ops.copy.plan import ORDER, CopyPlan, KindPlan, plan_copy
from icectl.ops.copy.state import Selection, select_state
from icectl.ops.copy.target import (
    check_lost,
    check_same_repository,
    check_target_online,
    find_lost,
    is_up_to_date,
    merge,
    open_target,
    publish,
)
from icectl.ops.copy.transfer import CompareChunks, MoveChunks, Moved, Transfer, out_of_time
from icectl.pipeline.engine import REFERENCES, ChooseEngine, Comparison
from icectl.pipeline.local_engine import LocalEngine, local_engine
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import OutOfTimeError, Progress
from icectl.repository.containers import read_containers
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.open import has_changed, open_repository
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage
from icectl.storage.local import LocalStorage

MAX_RESTARTS = 20
ROWS_PER_TASK = 16_384
PACED_TASKS = 4
"""The tasks of Spark that share a bandwidth limit."""


@dataclass(frozen=True, slots=True)
class CopyOptions:
    selection: Selection = field(default_factory=Selection)
    dry_run: bool = False
    force: bool = False
    verify: str | None = None
    """`sizes` or `bytes`."""
    concurrency: int | None = None
    bytes_per_second: int | None = None
    choose_engine: ChooseEngine = local_engine


@dataclass(frozen=True, slots=True)
class CopiedRef:
    name: str
    snapshot_id: SnapshotId
    previous_snapshot_id: SnapshotId | None
    """None if the target did not have it."""


@dataclass(frozen=True, slots=True)
class CopyResult:
    dry_run: bool
    engine: str
    source: str
    target: str
    spec_version: int
    is_new: bool
    """The target was not a repository before."""
    is_up_to_date: bool
    """There was nothing to do."""
    copied: Mapping[str, int]
    """The number of objects of each kind that were or would be copied."""
    bytes_by_kind: Mapping[str, int]
    bytes_copied: int
    skipped: Mapping[str, int]
    """Objects that new snapshots need and that the target had already."""
    branches: tuple[CopiedRef, ...]
    tags: tuple[CopiedRef, ...]
    snapshots: int
    """How many the copied state has."""
    verified: str | None
    lost: tuple[str, ...]
    """What the target had and the source never had; only with `force`."""
    notes: tuple[str, ...]

    @property
    def objects(self) -> int:
        return sum(self.copied.values())


def copy_repository(
    source: Storage, target: Storage, options: CopyOptions, progress: Progress | None = None
) -> CopyResult:
    with TemporaryDirectory(prefix="icectl-copy-") as directory:
        made = LocalStorage(directory)
        return _copy_until_consistent(source, target, options, made, progress or Progress())


def _copy_until_consistent(
    source: Storage, target: Storage, options: CopyOptions, made: Storage, progress: Progress
) -> CopyResult:
    with_detached = True
    earlier = unreadable = ""
    conflict: ConflictError | None = None
    for _ in range(MAX_RESTARTS):
        found = open_repository(source)
        try:
            result = _Copy(found, target, options, with_detached, progress, made).run()
            return result if with_detached else _add_note(result, unreadable)
        except OutOfTimeError:
            raise out_of_time() from None
        except ConflictError as error:
            # Somebody else wrote to the target.
            if conflict is not None:
                raise
            conflict = error
        except (FormatError, ObjectNotFoundError) as error:
            if isinstance(error, ObjectNotFoundError):
                error = error_of(missing(error.path, "a version that is to be copied needs it"))
            if has_changed(found) and error.message != earlier:
                earlier = error.message
            elif with_detached and options.selection.is_whole and _has_detached(found):
                with_detached, unreadable = False, error.message
            else:
                raise error from None
    raise ConflictError(
        f"the source was changed by others during each of {MAX_RESTARTS} attempts to copy it",
        hint="nothing was published; try again when fewer writers are at work",
    )


@dataclass(frozen=True)
class _Copy:
    """One attempt, from one state of the source."""

    source: Repository
    target: Storage
    options: CopyOptions
    with_detached: bool
    progress: Progress

    made: Storage
    """Receives the metadata files that the source does not have."""

    @cached_property
    def _state(self) -> Repository:
        selection = self.options.selection
        state = select_state(self.source, selection, with_detached=self.with_detached)
        if selection.paths:
            return select_paths(state, selection.paths, self.made)
        return cut_history(state, selection, self.made) if self._cuts_files else state

    @property
    def _cuts_files(self) -> bool:
        """In spec version 1, the history is in the snapshot files."""
        return self.source.info is None and self.options.selection.cuts_history

    def _origin(self, kind: ObjectKind) -> Storage:
        is_made = kind is ObjectKind.SNAPSHOT or (
            kind is not ObjectKind.CHUNK and self.options.selection.paths
        )
        return self._state.storage if is_made else self.source.storage

    def _transfer(self, kind: ObjectKind) -> Transfer:
        left = self.progress.seconds_left
        return Transfer(
            self._origin(kind),
            self.target,
            self.options.concurrency,
            self.options.bytes_per_second,
            None if left is None else time.time() + left,
        )

    def run(self) -> CopyResult:
        options = self.options
        before = open_target(self.target, self.source.storage)
        lost: list[str] = []
        if before is not None:
            check_same_repository(self.source, before)
            lost = find_lost(self.source, self.options.selection, before)
            if not options.force:
                check_lost(lost, self.target)
            if self._cuts_files:
                check_staying(self._state, before, self.options.selection)
            if options.verify is None and is_up_to_date(self._state, before, options.selection):
                return self._result(before, lost, None)
        known = self._find_known(before)
        plan = self._plan(known)
        notes = [*self._note_released(before)]
        if not options.dry_run:
            if before is not None:
                check_target_online(before)
            self._copy(plan)
            if options.verify is not None:
                self._verify()
            lost = publish(
                self.source,
                self._state,
                self.target,
                before,
                self.options.selection,
                known,
                lost,
                force=options.force,
            )
        return self._result(before, lost, plan, notes)

    def _find_known(self, before: Repository | None) -> Sequence[SnapshotId]:
        """The snapshots of the target, which has everything that they need."""
        # In spec version 1 an expiration rewrites snapshots, so that all are compared.
        if before is None or before.info is None or self.options.verify is not None:
            return ()
        return ids_of(before.info.snapshots)

    def _plan(self, known: Sequence[SnapshotId]) -> CopyPlan:
        return plan_copy(
            self._state,
            self._origin(ObjectKind.MANIFEST),
            self.target,
            known,
            self.options.choose_engine,
            self.progress,
        )

    def _copy(self, plan: CopyPlan) -> None:
        for kind in ORDER:
            part = plan.kinds[kind]
            if not part.count:
                continue
            if kind is ObjectKind.CHUNK:
                assert plan.chunks is not None
                moved = self._move_chunks(plan, plan.chunks)
            else:
                moved = self._transfer(kind).copy(part.sizes.items())
            self._follow(f"copying {kind.directory}", part.count, moved)

    def _move_chunks(self, plan: CopyPlan, chunks: Comparison) -> Iterator[Moved]:
        transfer, tasks = self._transfer(ObjectKind.CHUNK), None
        if transfer.bytes_per_second is not None and plan.engine != LocalEngine.name:
            tasks = PACED_TASKS
            share = max(1, transfer.bytes_per_second // tasks)
            transfer = replace(transfer, bytes_per_second=share)
        return chunks.map_mismatches(MoveChunks(transfer), "copying chunks", tasks)

    def _follow(self, label: str, count: int, moved: Iterable[Moved]) -> None:
        with self.progress.phase(label, count, "objects") as counter:
            for one in moved:
                counter.advance(one.objects)
                if one.error is not None:
                    raise one.error
                self.progress.check_time()

    def _verify(self) -> None:
        """Compare what the target has by now with the source."""
        again = self._plan(())
        if again.num_objects:
            raise StorageError(
                f"{again.num_objects:,} objects are missing in {self.target.location} after they "
                "were copied, or have other sizes; nothing was published"
            )
        if self.options.verify == "bytes":
            for kind in ORDER[1:]:
                needed = again.kinds[kind].needed
                moved = self._transfer(kind).compare(needed.items())
                self._follow(f"comparing {kind.directory}", len(needed), moved)
            if again.references is not None:
                function = CompareChunks(self._transfer(ObjectKind.CHUNK))
                for one in again.references.map_rows(
                    "comparing chunks", REFERENCES, function, ROWS_PER_TASK
                ):
                    if one.error is not None:
                        raise one.error

    def _result(
        self,
        before: Repository | None,
        lost: list[str],
        plan: CopyPlan | None,
        notes: Iterable[str] = (),
    ) -> CopyResult:
        state = self._state
        kinds = {kind.plural: KindPlan() if plan is None else plan.kinds[kind] for kind in ORDER}
        return CopyResult(
            dry_run=self.options.dry_run,
            engine=LocalEngine.name if plan is None else plan.engine,
            source=self.source.storage.location,
            target=self.target.location,
            spec_version=state.spec_version,
            is_new=before is None,
            is_up_to_date=plan is None,
            copied={kind: part.count for kind, part in kinds.items()},
            bytes_by_kind={kind: part.bytes for kind, part in kinds.items()},
            bytes_copied=sum(part.bytes for part in kinds.values()),
            skipped={kind: part.skipped for kind, part in kinds.items()},
            branches=_copied_refs(state.branches(), {} if before is None else before.branches()),
            tags=_copied_refs(state.tags(), {} if before is None else before.tags()),
            snapshots=len(state.all_snapshots()),
            verified=None if self.options.dry_run else self.options.verify,
            lost=tuple(lost),
            notes=(*_notes(self.source, self.options.selection), *notes),
        )

    def _note_released(self, before: Repository | None) -> Iterator[str]:
        """That a copy with less history takes versions away from a target that has more."""
        selection, state = self.options.selection, self._state.info
        if not (selection.cuts_history or selection.paths) or before is None:
            return
        if before.info is None or state is None:
            after = {one.id for one in (*staying(before, selection), *self._state.all_snapshots())}
        else:
            after = {*ids_of(merge(state, before.info, selection).snapshots)}
        released = {one.id for one in before.all_snapshots()} - after
        if released:
            yield (
                f"snapshots that the target no longer lists: {len(released):,}; a garbage "
                "collection there deletes what only they need"
            )


def _copied_refs(
    refs: Mapping[str, SnapshotId], before: Mapping[str, SnapshotId]
) -> tuple[CopiedRef, ...]:
    return tuple(CopiedRef(name, id_, before.get(name)) for name, id_ in refs.items())


def _notes(source: Repository, selection: Selection) -> Iterator[str]:
    if source.info is not None and source.info.status.availability != Availability.ONLINE:
        yield "the source is not online; the copy is"
    if not selection.has_branch(DEFAULT_BRANCH):
        yield f"{DEFAULT_BRANCH} is not selected, so that it is at the first snapshot"
    for prefix in read_containers(source).prefixes:
        if prefix.startswith("file://"):
            yield f"virtual chunks below {prefix} are read from there, on every machine"


def _add_note(result: CopyResult, unreadable: str) -> CopyResult:
    note = (
        "the copy is without the snapshots that no branch or tag leads to, "
        f"because not all of them are sound: {unreadable}"
    )
    return replace(result, notes=(*result.notes, note))


def _has_detached(repository: Repository) -> bool:
    reachable = {one.id for one in repository.reachable_snapshots()}
    return any(one.id not in reachable for one in repository.all_snapshots())
