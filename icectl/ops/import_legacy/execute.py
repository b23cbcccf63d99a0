"""Write the new repository.

Objects are written before what refers to them, and `repo` last and only if it is absent: a killed
import leaves no repository, and the next one continues. The source is only read. Files of spec
version 1 are valid in version 2 and are copied as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from icectl.errors import (
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    StorageError,
)
from icectl.format.manifest import encode_manifest
from icectl.format.repo import encode_repo
from icectl.format.snapshot import encode_snapshot
from icectl.format.transaction_log import encode_transaction_log
from icectl.model.ids import ManifestId, SnapshotId
from icectl.model.manifest import Manifest
from icectl.model.repo import Update
from icectl.model.snapshot import Snapshot
from icectl.ops.import_legacy.convert import (
    ManifestFile,
    convert_manifest,
    convert_snapshot,
    describe_manifest,
    fit_id,
)
from icectl.ops.import_legacy.plan import (
    THREADS,
    ImportPlan,
    ImportResult,
    describe_repo,
    object_path,
    plan_import,
)
from icectl.ops.repair.logs import derive_log
from icectl.ops.upgrade import MIGRATED
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.repository.clock import read_write_time
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.repository import Repository
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import Storage

MANIFESTS_REMEMBERED = 16


def import_repository(
    source: Repository, target: Storage, progress: Progress, *, dry_run: bool = False
) -> ImportResult:
    plan = plan_import(source, target, progress)
    return plan.result(0 if dry_run else execute_import(plan, progress), dry_run=dry_run)


def execute_import(plan: ImportPlan, progress: Progress) -> int:
    """Write what the target lacks; return the number of objects."""
    plan.target.ensure_conditional_creates()
    return _Import(plan).run(progress)


@dataclass
class _Import:
    plan: ImportPlan
    files: dict[ManifestId, ManifestFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source, self.target = self.plan.source, self.plan.target
        self._old_ids = {fit_id(id_): id_ for id_ in self.plan.manifests}
        # The logs of a branch compare each manifest with the one before and the one after.
        self._read_again = lru_cache(MANIFESTS_REMEMBERED)(self._convert_manifest)

    def run(self, progress: Progress) -> int:
        plan = self.plan
        written = self._copy_chunks(progress)
        for kind, write, ids in (
            ("manifests", self._write_manifest, plan.manifests),
            ("snapshots", self._write_snapshot, plan.snapshots),
        ):
            counts = map_on_threads(write, ids, workers=THREADS, ahead=2 * THREADS)  # type: ignore[arg-type]
            written += sum(progress.count(counts, f"writing {kind}", len(ids), kind))
        if REPO_PATH not in plan.found:
            self._write_repo()
            written += 1
        return written

    def _copy_chunks(self, progress: Progress) -> int:
        """Those that the target has in full stay: ids are random, so the name says it all."""
        targets = {
            f"{self.source.layout.chunks}/{id_}": path
            for id_, size in self.plan.chunks.items()
            if self.plan.found.get(path := object_path(ObjectKind.CHUNK, id_)) != size
        }

        def contents() -> Iterator[tuple[str, bytes]]:
            for path, data in self.source.storage.read_many(targets):
                if isinstance(data, StorageError):
                    raise data
                yield targets[path], data

        outcomes = self.target.write_many(contents())
        for _, error in progress.count(outcomes, "copying chunks", len(targets), "chunks"):
            if error is not None:
                raise error
        self.target.sync()
        return len(targets)

    def read_manifest(self, manifest_id: ManifestId) -> Manifest:
        """By the id in the target, as `derive_log` needs it."""
        return self._read_again(self._old_ids[manifest_id])

    def _convert_manifest(self, manifest_id: ManifestId) -> Manifest:
        manifest = self.source.read_manifest(manifest_id)
        if self.plan.copies_files:
            return manifest
        return convert_manifest(manifest, self.plan.manifests[manifest_id])

    def _write_manifest(self, manifest_id: ManifestId) -> int:
        if self.plan.copies_files:
            data = self.source.storage.read(self.source.layout.manifest(manifest_id))
        else:
            manifest = self._convert_manifest(manifest_id)
            data = encode_manifest(manifest)
            self.files[manifest_id] = describe_manifest(manifest, len(data))
            if not manifest.num_chunk_refs:
                return 0
        return self._put(object_path(ObjectKind.MANIFEST, manifest_id), data)

    def _write_snapshot(self, snapshot_id: SnapshotId) -> int:
        """The log first: a snapshot without its log would look like a damaged one."""
        written = self._put(
            object_path(ObjectKind.TRANSACTION_LOG, snapshot_id), self._log(snapshot_id)
        )
        if self.plan.copies_files:
            data = self.source.storage.read(self.source.layout.snapshot(snapshot_id))
        else:
            data = encode_snapshot(self._snapshot(snapshot_id))
        return written + self._put(object_path(ObjectKind.SNAPSHOT, snapshot_id), data)

    def _snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        snapshot = self.source.read_snapshot(snapshot_id)
        return snapshot if self.plan.copies_files else convert_snapshot(snapshot, self.files)

    def _log(self, snapshot_id: SnapshotId) -> bytes:
        """That of the source in spec version 1; before, logs do not say all that they do now."""
        if self.plan.copies_files:
            try:
                return self.source.storage.read(f"{self.source.layout.transactions}/{snapshot_id}")
            except ObjectNotFoundError:
                pass  # the first snapshot has none
        after = self._snapshot(snapshot_id)
        parent = self.plan.snapshots[snapshot_id].parent_id
        before = (
            replace(after, nodes=(), manifest_files=(), manifest_files_v2=())
            if parent is None
            else self._snapshot(parent)
        )
        return encode_transaction_log(derive_log(self, fit_id(snapshot_id), before, after))

    def _write_repo(self) -> None:
        state = describe_repo(self.plan)
        now = max(read_write_time(self.target), state.latest_updates[0].updated_at + 1)
        updates = (Update(MIGRATED, now), *state.latest_updates)
        try:
            data = encode_repo(replace(state, latest_updates=updates))
            self.target.put_if_absent(REPO_PATH, data)
        except PreconditionFailedError:
            raise RefusedError(
                f"{self.target.location} was made a repository by somebody else just now",
                hint="open it; nothing of it was changed",
            ) from None

    def _put(self, path: str, data: bytes) -> int:
        if path not in self.plan.found:
            try:
                self.target.put_if_absent(path, data)
            except PreconditionFailedError:
                pass  # another run of this import was faster
            else:
                return 1
        if self.target.read(path) != data:
            raise RefusedError(
                f"{self.target.location} has another {path} than this import writes",
                hint="import into an empty location",
            )
        return 0
