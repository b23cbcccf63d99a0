"""One state of a repository: its refs, its history and its files.

A `Repository` never changes; a change creates another state, which the next `open_repository`
reads. Every generation has the same interface; only V2 has a repo info file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from icectl.errors import (
    FormatError,
    ObjectNotFoundError,
    RefNotFoundError,
    Remedy,
    StorageError,
    UnsupportedError,
)
from icectl.format.envelope import Generation, decode_envelope
from icectl.model.ids import ManifestId, ObjectId, SnapshotId, find_by_prefix
from icectl.model.node_table import NodeTable
from icectl.model.repo import RepoInfo, SnapshotInfo, ids_of, infos_by_id
from icectl.model.snapshot import Snapshot
from icectl.model.transaction_log import TransactionLog
from icectl.repository.history import walk
from icectl.repository.layout import Layout
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.resolve import ResolvedRef, resolve_ref
from icectl.storage.contract import Storage

if TYPE_CHECKING:
    from icectl.format.legacy import LegacyManifest
    from icectl.format.manifest import FewRefs, OpenManifest
    from icectl.model.manifest import Manifest
    from icectl.model.node_columns import SnapshotColumns
    from icectl.repository.alpha import Dimensions
    from icectl.repository.ref_store import RefStore
    from icectl.repository.update import FoundRepo


_File = TypeVar("_File")
_Manifest = TypeVar("_Manifest", bound="Manifest | FewRefs | OpenManifest")

WRITABLE = (Generation.V1, Generation.V2)
"""Generations that icectl can change; older ones are read-only."""


@dataclass(frozen=True, eq=False)
class Repository:
    storage: Storage
    generation: Generation
    layout: Layout
    spec_version: int
    info: RepoInfo | None
    """The repo info file; V2 only."""
    branch_tips: Mapping[str, SnapshotId]
    tag_targets: Mapping[str, SnapshotId]
    deleted_tag_names: tuple[str, ...]
    found: FoundRepo | None = None
    """The repo info file as it was read, if it was opened to be changed."""
    repo_size_bytes: int | None = None
    """Of the repo info file in the storage, if this state was read from it."""
    _read_infos: dict[SnapshotId, SnapshotInfo] = field(default_factory=dict)

    @property
    def is_writable(self) -> bool:
        """Whether icectl can change repositories of this generation."""
        return self.generation in WRITABLE

    def without_history(self) -> Repository:
        """The repository for reading files only: without refs and history, small to pickle."""
        return replace(
            self, info=None, branch_tips={}, tag_targets={}, deleted_tag_names=(), _read_infos={}
        )

    def check_writable(self) -> None:
        """`UnsupportedError` for a generation that is never changed."""
        if not self.is_writable:
            raise UnsupportedError(
                f"repositories of the generation {self.generation} can only be read",
                hint=Remedy("upgrade-to-target"),
            )

    def check_online(self) -> None:
        """`RefusedError` if the repository is closed for changes; V1 has no such status."""
        if self.info is not None:
            from icectl.repository.update import check_online

            check_online(self.info.status)

    def check_newest(self) -> None:
        """`FormatError` if a backup of `repo` is newer than this state; V1 has none."""
        if self.info is not None:
            from icectl.repository.backups import check_newest

            check_newest(self.storage, self.info)

    @property
    def refs(self) -> RefStore:
        """Changes the branches and tags; `UnsupportedError` for a generation that is read-only."""
        self.check_writable()
        if self.generation is Generation.V1:
            from icectl.repository.ref_files import RefFiles

            return RefFiles(self.storage)
        from icectl.repository.ref_store import RepoFileRefs

        return RepoFileRefs(self.storage, self.found)

    @property
    def lists_snapshots(self) -> bool:
        """Whether the state itself describes each snapshot; before V2, only the files do."""
        return self.info is not None

    def branches(self) -> Mapping[str, SnapshotId]:
        return self.branch_tips

    def tags(self) -> Mapping[str, SnapshotId]:
        return self.tag_targets

    def deleted_tags(self) -> tuple[str, ...]:
        return self.deleted_tag_names

    def resolve(self, text: str) -> ResolvedRef:
        return resolve_ref(self, text)

    @cached_property
    def _listed_infos(self) -> Mapping[SnapshotId, SnapshotInfo]:
        """The entry of the repo info file for each snapshot; empty before V2."""
        return {} if self.info is None else infos_by_id(self.info.snapshots)

    def snapshot_info(self, snapshot_id: SnapshotId) -> SnapshotInfo:
        """Without a read in V2; before, from the snapshot's own file, once."""
        info = self._listed_infos.get(snapshot_id) or self._read_infos.get(snapshot_id)
        if info is not None:
            return info
        if self.info is not None:
            raise RefNotFoundError(f"the repository has no snapshot {snapshot_id}")
        self.read_snapshot(snapshot_id)
        return self._read_infos[snapshot_id]

    def info_object(self, snapshot_id: SnapshotId) -> str:
        """The object that `snapshot_info` is read from."""
        return REPO_PATH if self.lists_snapshots else self.layout.snapshot(snapshot_id)

    def ancestry(self, snapshot_id: SnapshotId) -> Iterator[SnapshotInfo]:
        """The snapshot and its ancestors, newest first; `FormatError` at a cycle."""
        next_id: SnapshotId | None = None
        for id_ in walk(snapshot_id, lambda id_: self.snapshot_info(id_).parent_id):
            info = self.snapshot_info(id_)
            yield info
            next_id = info.parent_id
        if next_id is not None:
            raise FormatError(
                f"the ancestry of {snapshot_id} contains a cycle at {next_id}",
                path=self.info_object(next_id),
            )

    def ancestry_of_all(self, tips: Iterable[SnapshotId]) -> Iterator[SnapshotInfo]:
        """The tips and their ancestors, each snapshot once; `FormatError` at a cycle."""
        seen: set[SnapshotId] = set()
        for tip in tips:
            for info in self.ancestry(tip):
                if info.id in seen:
                    break
                seen.add(info.id)
                yield info

    def reachable_snapshots(self) -> Iterator[SnapshotInfo]:
        """Everything that a branch or tag leads to."""
        return self.ancestry_of_all((*self.branch_tips.values(), *self.tag_targets.values()))

    def all_snapshots(self, count: Callable[[], None] = lambda: None) -> Sequence[SnapshotInfo]:
        """V2: all that the repo info file lists; before: all that a ref can reach.

        `count` is called after each file that is read.
        """
        if self.info is not None:
            return self.info.snapshots
        snapshots = []
        for snapshot in self.reachable_snapshots():
            snapshots.append(snapshot)
            count()
        return snapshots

    def find_snapshots(self, prefix: str) -> list[SnapshotId]:
        """The ids that begin with the prefix, which is in upper case, in order."""
        if self.info is not None:
            return sorted(find_by_prefix(ids_of(self.info.snapshots), prefix))
        directory = self.layout.snapshots
        found = []
        for listed in self.storage.list(directory, with_info=False, starts_with=prefix):
            try:
                found.append(SnapshotId.parse(listed.path.removeprefix(f"{directory}/")))
            except ValueError:
                continue
        return sorted(found)

    def read_snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        from icectl.format.snapshot import decode_snapshot

        path = self.layout.snapshot(snapshot_id)
        snapshot = self._read(path, decode_snapshot if self.is_writable else _decode_legacy)
        if self.generation is Generation.ALPHA_RAW:
            from icectl.repository.alpha import rename_first

            snapshot = rename_first(snapshot, self._renamed_first)
        _check_id(snapshot.id, snapshot_id, path)
        if self.info is None:
            self._read_infos[snapshot_id] = SnapshotInfo(
                snapshot.id,
                snapshot.parent_id,
                snapshot.flushed_at,
                snapshot.message,
                snapshot.metadata,
            )
        return snapshot

    def decode_snapshot(self, snapshot_id: SnapshotId, data: bytes) -> Snapshot | SnapshotColumns:
        """The snapshot in a file of V1 or V2 that was already read."""
        from icectl.format.snapshot import decode_in_either_form

        path = self.layout.snapshot(snapshot_id)
        snapshot = _decode(path, data, decode_in_either_form)
        _check_id(snapshot.id, snapshot_id, path)
        return snapshot

    def read_node_tables(self, snapshot_ids: Collection[SnapshotId]) -> dict[SnapshotId, NodeTable]:
        """The nodes of each snapshot, all read at once."""
        from icectl.format.snapshot import decode_node_table

        if not self.is_writable:
            return {id_: NodeTable.of(self.read_snapshot(id_)) for id_ in snapshot_ids}
        paths = {self.layout.snapshot(id_): id_ for id_ in snapshot_ids}
        tables = {}
        for path, data in self.storage.read_many(paths):
            tables[paths[path]] = table = _decode(path, data, decode_node_table)
            _check_id(table.snapshot_id, paths[path], path)
        return tables

    def read_snapshot_columns(
        self, snapshot_ids: Collection[SnapshotId]
    ) -> Iterator[SnapshotColumns]:
        """Each snapshot once, in no particular order, without an object for each node."""
        from icectl.format.node_columns import decode_snapshot_columns
        from icectl.model.node_columns import columns_of

        if not self.is_writable:
            yield from (columns_of(self.read_snapshot(id_)) for id_ in snapshot_ids)
            return
        paths = {self.layout.snapshot(id_): id_ for id_ in snapshot_ids}
        for path, data in self.storage.read_many(paths):
            columns = _decode(path, data, decode_snapshot_columns)
            _check_id(columns.id, paths[path], path)
            yield columns

    def read_transaction_logs(self, log_ids: Sequence[SnapshotId]) -> Iterator[TransactionLog]:
        """Each log once, in no particular order."""
        from icectl.format.transaction_log import decode_transaction_log

        if not self.is_writable:
            yield from map(self.read_transaction_log, log_ids)
            return
        paths = {f"{self.layout.transactions}/{id_}": id_ for id_ in log_ids}
        for path, data in self.storage.read_many(paths):
            log = _decode(path, data, decode_transaction_log)
            _check_id(log.id, paths[path], path)
            yield log

    def read_transaction_log(self, snapshot_id: SnapshotId) -> TransactionLog:
        from icectl.format.transaction_log import decode_transaction_log

        if not self.has_transaction_logs:
            raise UnsupportedError("repositories of this generation have no transaction logs")
        path = f"{self.layout.transactions}/{snapshot_id}"
        if not self.is_writable:
            from icectl.format.legacy import decode_legacy_transaction_log

            return self._read(
                path,
                lambda data: decode_legacy_transaction_log(
                    decode_envelope(data).payload, snapshot_id
                ),
            )
        log = self._read(path, decode_transaction_log)
        _check_id(log.id, snapshot_id, path)
        return log

    def read_manifest(self, manifest_id: ManifestId) -> Manifest:
        """By columns, in every generation."""
        from icectl.format.manifest import decode_manifest

        return self._read_manifest(manifest_id, decode_manifest)

    def read_chunk_sizes(
        self, manifest_ids: Collection[ManifestId]
    ) -> Iterator[Manifest | FewRefs]:
        """Each manifest once, in no particular order, without coordinates where possible."""
        from icectl.format.manifest import decode_sizes

        if not self.is_writable:
            yield from map(self.read_manifest, manifest_ids)
            return
        paths = {self.layout.manifest(id_): id_ for id_ in manifest_ids}
        for path, data in self.storage.read_many(paths):
            found = _decode(path, data, decode_sizes)
            _check_id(found.id, paths[path], path)
            yield found

    def open_manifest(self, manifest_id: ManifestId) -> OpenManifest:
        """The manifest without its references; V1 and V2 only."""
        from icectl.format.manifest import OpenManifest

        self.check_writable()
        opened = self._read_manifest(manifest_id, OpenManifest)
        assert isinstance(opened, OpenManifest)
        return opened

    def _read_manifest(
        self, manifest_id: ManifestId, decode: Callable[[bytes], _Manifest]
    ) -> Manifest | _Manifest:
        if not self.is_writable:
            from icectl.format.legacy.columns import legacy_manifest_columns

            legacy = legacy_manifest_columns(self.read_legacy_manifest(manifest_id), manifest_id)
            if self.generation is not Generation.ALPHA_RAW:
                return legacy
            from icectl.repository.alpha import without_misplaced

            return without_misplaced(legacy, self._dimensions)
        path = self.layout.manifest(manifest_id)
        manifest = self._read(path, decode)
        _check_id(manifest.id, manifest_id, path)
        return manifest

    def read_legacy_manifest(self, manifest_id: ManifestId) -> LegacyManifest:
        from icectl.format.legacy import decode_legacy_manifest

        path = self.layout.manifest(manifest_id)
        manifest = self._read(
            path, lambda data: decode_legacy_manifest(decode_envelope(data).payload)
        )
        if manifest.id is not None:
            _check_id(manifest.id, manifest_id, path)
        return manifest

    @cached_property
    def has_transaction_logs(self) -> bool:
        """False where the writer made none: before 0.1.0-alpha.5, and in the draft."""
        if self.layout.transactions is None or self.generation is not Generation.ALPHA_RAW:
            return self.layout.transactions is not None
        logs = self.storage.list(self.layout.transactions, with_info=False)
        return next(iter(logs), None) is not None

    @cached_property
    def _renamed_first(self) -> Mapping[SnapshotId, SnapshotId]:
        from icectl.repository.alpha import find_renamed_first

        return find_renamed_first(self.storage, self.layout)

    @cached_property
    def _dimensions(self) -> Dimensions:
        from icectl.repository.alpha import collect_dimensions

        return collect_dimensions(self._readable_snapshots())

    def _readable_snapshots(self) -> Iterator[Snapshot]:
        for listed in self.storage.list(self.layout.snapshots, with_info=False):
            name = listed.path.removeprefix(f"{self.layout.snapshots}/")
            try:
                yield self.read_snapshot(SnapshotId.parse(name))
            except (ValueError, FormatError, ObjectNotFoundError):
                continue

    def _read(self, path: str, decode: Callable[[bytes], _File]) -> _File:
        return _decode(path, self.storage.read(path), decode)


def _decode(path: str, data: bytes | StorageError, decode: Callable[[bytes], _File]) -> _File:
    if isinstance(data, StorageError):
        raise data
    try:
        return decode(data)
    except FormatError as error:
        raise error.at(path) from None


def _decode_legacy(data: bytes) -> Snapshot:
    from icectl.format.legacy import decode_legacy_snapshot

    return decode_legacy_snapshot(decode_envelope(data).payload)


def _check_id(said: ObjectId, expected: ObjectId, path: str) -> None:
    """The name of a file is its id; a file with another id inside is in the wrong place."""
    if said != expected:
        raise FormatError(f"the file says that it is {said}", path=path)
