"""The level `metadata`: every chosen snapshot and transaction log, each compared with its parent.

Snapshots are read once, parents first; a parent is kept until its last child was compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice

from icectl.checks import rules
from icectl.checks.listing import missing
from icectl.checks.manifest import (
    ArrayUse,
    ManifestClaim,
    check_manifest_size,
    check_same_claim,
)
from icectl.checks.node import decoding_part
from icectl.checks.problem import UNREADABLE, Problem, unreadable
from icectl.checks.snapshot import CheckedNodes, CheckedSnapshot, check_nodes, check_snapshot
from icectl.checks.transaction_log import (
    Step,
    check_changes_logged,
    check_log,
    check_log_against,
)
from icectl.errors import FormatError, ObjectNotFoundError, ObjectTooLargeError, StorageError
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.node_columns import byte_rows, columns_of
from icectl.model.node_table import NodeTable, is_array
from icectl.model.snapshot import ArrayNodeData, NodeSnapshot
from icectl.model.transaction_log import TransactionLog
from icectl.ops.diff.result import ArrayPair
from icectl.ops.validate.report import Report
from icectl.pipeline.chunk_data import DecodableArray
from icectl.pipeline.coordinates import CoordinateSet
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.pipeline.read_ahead import read_in_order
from icectl.repository.history import History
from icectl.repository.repository import Repository
from icectl.storage.sharded_listing import list_columns_sharded

Content = bytes | ObjectTooLargeError | None
"""Of a file; None if it does not exist."""

LOGGED_BYTES_KEPT = 64 << 20
"""Of the chunks that logs record, for the level `manifests`; it reads further logs again."""


@dataclass(frozen=True, slots=True)
class ChangedArrays:
    """Arrays whose manifests differ between a snapshot and its parent."""

    snapshot_id: SnapshotId
    parent_id: SnapshotId
    logs: tuple[SnapshotId, ...]
    """Every log between the two."""
    arrays: tuple[ArrayPair, ...]
    logged: Mapping[NodeId, CoordinateSet] | None = None
    """The chunks of each array that these logs record, if they were kept."""


@dataclass(slots=True)
class Metadata:
    """The facts in the snapshots that the next levels need."""

    num_snapshots: int = 0
    num_logs: int = 0
    claims: dict[ManifestId, ManifestClaim] = field(default_factory=dict)
    users: dict[ManifestId, list[SnapshotId]] = field(default_factory=dict)
    uses: dict[ManifestId, set[ArrayUse]] = field(default_factory=dict)
    changes: list[ChangedArrays] = field(default_factory=list)
    snapshots: set[SnapshotId] = field(default_factory=set)
    """Those that could be read."""
    logs: set[SnapshotId] = field(default_factory=set)
    """Every log that a chosen snapshot needs."""
    arrays: dict[NodeId, NodeSnapshot] = field(default_factory=dict)
    """Each array as one of the newest versions has it."""
    documents: dict[NodeId, dict[bytes, None]] = field(default_factory=dict)
    """For decoding each array's chunks: the codecs of its versions, newest last."""

    def decodable(self, node_id: NodeId) -> DecodableArray | None:
        if node_id not in self.arrays:
            return None
        return DecodableArray(self.arrays[node_id].path, tuple(self.documents[node_id]))


def check_metadata(
    repository: Repository,
    history: History,
    report: Report,
    progress: Progress,
    *,
    decode: bool = False,
    is_deep: bool = False,
) -> Metadata:
    """With `decode`, also collects what is needed to decode chunks.

    With `is_deep`, keeps what logs record, and leaves manifests to those who read them: otherwise a
    listing shows whether they exist, and their sizes.
    """
    return _Walk(repository, history, report, decode, is_deep).run(progress)


class _Walk:
    def __init__(
        self,
        repository: Repository,
        history: History,
        report: Report,
        decode: bool,
        is_deep: bool,
    ) -> None:
        self.repository = repository
        self.history = history
        self.report = report
        self.decode = decode
        self.is_deep = is_deep
        self.bytes_to_keep = LOGGED_BYTES_KEPT if is_deep else 0
        self.found = Metadata()
        self.waiting = history.num_children()
        self.tables: dict[SnapshotId, tuple[NodeTable, CheckedNodes]] = {}
        self.last = CheckedNodes()
        self.seen_claims: set[bytes] = set()
        self.claims_differ = False

    def run(self, progress: Progress) -> Metadata:
        left = set(self.history.parents)
        files = read_in_order(self.repository.storage, self._paths())

        def take(count: int) -> list[Content]:
            return [_content_of(data) for _, data in islice(files, count)]

        background = ThreadPoolExecutor(1, "icectl-listing")
        try:
            sizes: Future[dict[str, int | None]] | None = None
            with progress.phase("reading snapshots", len(self.history.parents)) as counter:
                for snapshot_id in self.history.parents_first():
                    data, *logs = take(1 + len(self._log_ids(snapshot_id)))
                    self._check(snapshot_id, data, logs)
                    left.remove(snapshot_id)
                    counter.advance()
                    if sizes is None and self.found.claims and not self.is_deep:
                        # What snapshots refer to was written before the state was read.
                        sizes = background.submit(self._list_manifests)
            if sizes is not None:
                self._check_manifest_files(sizes.result())
        finally:
            background.shutdown(wait=False)
        if left:  # for whatever reason: a check that skipped something must not pass
            raise FormatError(f"{len(left)} snapshots were not checked, such as {min(left)}")
        if self.decode:
            self._ask_to_decode_inline()
        return self.found

    def _ask_to_decode_inline(self) -> None:
        """Inline chunks are decoded where manifests are checked, by either engine."""
        documents = {node_id: tuple(found) for node_id, found in self.found.documents.items()}
        for manifest_id, uses in self.found.uses.items():
            self.found.uses[manifest_id] = {
                replace(use, zarr_jsons=documents[use.node_id]) for use in uses
            }

    def _paths(self) -> Iterator[str]:
        """All files in the order in which they are checked."""
        layout = self.repository.layout
        for snapshot_id in self.history.parents_first():
            yield layout.snapshot(snapshot_id)
            yield from (f"{layout.transactions}/{id_}" for id_ in self._log_ids(snapshot_id))

    def _log_ids(self, snapshot_id: SnapshotId) -> tuple[SnapshotId, ...]:
        """The snapshot's own log, and those of removed ancestors, oldest first."""
        if self.repository.layout.transactions is None:
            return ()
        if self.repository.info is None:
            return (snapshot_id,)
        info = self.repository.snapshot_info(snapshot_id)
        return snapshot_id, *(info.pruned_ancestor_tx_logs or ())

    def _check(self, snapshot_id: SnapshotId, data: Content, logs: Sequence[Content]) -> None:
        parent_id = self.history.parents[snapshot_id]
        # Without its parent, unreadable or not chosen, the snapshot is not compared.
        before, nodes = None, self.last
        if parent_id in self.tables:
            before, nodes = self.tables[parent_id]
        snapshot = self._check_snapshot(snapshot_id, data, nodes)
        after = None
        if snapshot is not None:
            self.last = snapshot.checked
            after = NodeTable.of_nodes(snapshot_id, snapshot.checked.nodes, {})
        if self.repository.is_writable:
            self._check_logs(snapshot_id, logs, before, after)
        elif logs and logs[0] is not None:
            self._check_legacy_log(snapshot_id)
        if after is not None and self.waiting[snapshot_id]:
            self.tables[snapshot_id] = after, self.last
        if parent_id is not None and parent_id in self.waiting:
            self.waiting[parent_id] -= 1
            if not self.waiting[parent_id]:
                self.tables.pop(parent_id, None)

    def _check_snapshot(
        self, snapshot_id: SnapshotId, data: Content, before: CheckedNodes
    ) -> CheckedSnapshot | None:
        path = self.repository.layout.snapshot(snapshot_id)
        if data is None:
            self.report.add(missing(path, "the file does not exist"), (snapshot_id,))
            return None
        if isinstance(data, ObjectTooLargeError):
            problem = unreadable(rules.SNAPSHOT_UNREADABLE, path, data)
            self.report.add(problem, (snapshot_id,))
            return None
        self.found.num_snapshots += 1
        snapshot: CheckedSnapshot | None
        if self.repository.is_writable:
            info = None
            if self.repository.info is not None:
                info = self.repository.snapshot_info(snapshot_id)
            snapshot, problems = check_snapshot(data, snapshot_id, info, before)
            self.report.extend(problems, (snapshot_id,))
        else:
            try:
                columns = columns_of(self.repository.read_snapshot(snapshot_id))
                snapshot = CheckedSnapshot(columns, check_nodes(columns.nodes, before))
            except UNREADABLE as error:
                problem = unreadable(rules.SNAPSHOT_UNREADABLE, path, error)
                self.report.add(problem, (snapshot_id,))
                snapshot = None
        if snapshot is not None:
            self.found.snapshots.add(snapshot_id)
            self._note_manifests(snapshot)
        return snapshot

    def _note_manifests(self, snapshot: CheckedSnapshot) -> None:
        found, files, snapshot_id = self.found, snapshot.columns.manifest_files, snapshot.columns.id
        # A contradiction is reported for every snapshot that has it.
        infos = files.infos() if self.claims_differ else files.new_infos(self.seen_claims)
        for file in infos:
            claim = ManifestClaim.of(file)
            known = found.claims.setdefault(file.id, claim)
            if claim != known:
                self.claims_differ = True
                users = found.users.get(file.id, [snapshot_id])
                problems = check_same_claim(claim, known, snapshot_id, users[0])
                self.report.extend(problems, (snapshot_id, *users))
        for id_ in byte_rows(files.id):
            users = found.users.get(id_)  # type: ignore[call-overload]
            if users is None:
                users = found.users[ManifestId(id_)] = []
            users.append(snapshot_id)
        found.arrays.update((node.id, node) for node in snapshot.checked.changed if is_array(node))
        if self.decode:
            for node in filter(is_array, snapshot.checked.nodes):
                documents = found.documents.setdefault(node.id, {})
                part = decoding_part(node.user_data)
                documents.pop(part, None)
                documents[part] = None
        for node in snapshot.checked.changed:
            if isinstance(node.node_data, ArrayNodeData):
                for ref in node.node_data.manifests:
                    use = ArrayUse(node.id, node.path, ref.extents)
                    found.uses.setdefault(ref.object_id, set()).add(use)

    def _check_legacy_log(self, snapshot_id: SnapshotId) -> None:
        """Whether it can be read; a missing log may never have been written."""
        self.found.logs.add(snapshot_id)
        self.found.num_logs += 1
        try:
            self.repository.read_transaction_log(snapshot_id)
        except UNREADABLE as error:
            path = ObjectKind.TRANSACTION_LOG.path(snapshot_id)
            problem = unreadable(rules.LOG_UNREADABLE, path, error)
            self.report.add(problem, (snapshot_id,))

    def _check_logs(
        self,
        snapshot_id: SnapshotId,
        files: Sequence[Content],
        before: NodeTable | None,
        after: NodeTable | None,
    ) -> None:
        parent_id = self.history.parents[snapshot_id]
        is_first = parent_id is None
        self.found.logs.add(snapshot_id)
        own_file, *pruned_files = files
        log = self._decode_log(snapshot_id, own_file, snapshot_id, is_first)
        pruned = self._decode_pruned_logs(snapshot_id, pruned_files)
        if after is None:
            return
        grandparent = self.history.parents.get(parent_id) if parent_id is not None else None
        # Writers before 2.1 attached snapshots to the initial one without keeping the logs between.
        step = Step(before, after, is_first, pruned == () and grandparent is not None)
        if log is not None:
            self.report.extend(check_log_against(log, step), (snapshot_id,))
        if log is None or pruned is None or parent_id is None or before is None:
            return
        logs = (*pruned, log)
        if grandparent is None and not self._explain(logs, step):
            return
        self.report.extend(check_changes_logged(logs, step), (snapshot_id,))
        self._note_changes(snapshot_id, parent_id, logs, before, after)

    @staticmethod
    def _explain(logs: Iterable[TransactionLog], step: Step) -> bool:
        """Whether a child of the initial snapshot was created on it, or attached with all the logs.

        Expiration before spec version 2.1 dropped the logs, also for snapshots attached later.
        """
        new = {node_id for log in logs for node_id in (*log.new_groups, *log.new_arrays)}
        assert step.before is not None
        return step.after.by_id.keys() - step.before.by_id.keys() <= new

    def _decode_log(
        self, log_id: SnapshotId, data: Content, needed_by: SnapshotId, is_first: bool
    ) -> TransactionLog | None:
        if data is None:
            path = ObjectKind.TRANSACTION_LOG.path(log_id)
            if not is_first:
                self.report.add(missing(path, f"the snapshot {needed_by} needs it"), (needed_by,))
                self.report.missing.append(path)
            elif self.repository.info is not None:
                self.report.add(
                    Problem(rules.LOG_INITIAL, path, "the file does not exist"), (log_id,)
                )
            return None
        if isinstance(data, ObjectTooLargeError):
            path = ObjectKind.TRANSACTION_LOG.path(log_id)
            self.report.add(unreadable(rules.LOG_UNREADABLE, path, data), (needed_by,))
            return None
        self.found.num_logs += 1
        log, problems = check_log(data, log_id)
        self.report.extend(problems, (needed_by,))
        return log

    def _decode_pruned_logs(
        self, snapshot_id: SnapshotId, files: Sequence[Content]
    ) -> tuple[TransactionLog, ...] | None:
        """The logs of removed ancestors, oldest first; None if one is missing."""
        logs = []
        for log_id, data in zip(self._log_ids(snapshot_id)[1:], files, strict=True):
            self.found.logs.add(log_id)
            logs.append(self._decode_log(log_id, data, snapshot_id, False))
        return None if None in logs else tuple(log for log in logs if log is not None)

    def _note_changes(
        self,
        snapshot_id: SnapshotId,
        parent_id: SnapshotId,
        logs: Sequence[TransactionLog],
        before: NodeTable,
        after: NodeTable,
    ) -> None:
        pairs = []
        for node_id in after.arrays:
            new, old = after.by_id[node_id], before.by_id.get(node_id)
            if new is old:
                continue
            manifests = new.node_data.manifests  # type: ignore[union-attr]
            if old is not None and isinstance(old.node_data, ArrayNodeData):
                if set(old.node_data.manifests) != set(manifests):
                    pairs.append(ArrayPair(new.path, old, new))
            elif manifests:
                pairs.append(ArrayPair(new.path, None, new))
        if pairs:
            pairs.sort(key=lambda pair: pair.path)
            log_ids = tuple(log.id for log in logs)
            logged = self._keep_logged({pair.after.id for pair in pairs if pair.after}, logs)
            changed = ChangedArrays(snapshot_id, parent_id, log_ids, tuple(pairs), logged)
            self.found.changes.append(changed)

    def _keep_logged(
        self, nodes: set[NodeId], logs: Sequence[TransactionLog]
    ) -> Mapping[NodeId, CoordinateSet] | None:
        size = sum(
            array.chunks.nbytes
            for log in logs
            for array in log.updated_chunks
            if array.node_id in nodes
        )
        if size > self.bytes_to_keep:
            return None
        self.bytes_to_keep -= size
        return collect_logged(logs, nodes)

    def _list_manifests(self) -> dict[str, int | None]:
        storage, directory = self.repository.storage, self.repository.layout.manifests
        if not storage.is_object_store:
            return {info.path: info.size for info in storage.list(directory, with_info=True)}
        return {
            f"{directory}/{name}": size
            for part in list_columns_sharded(storage, directory)
            for name, size in zip(part.names, part.sizes.tolist(), strict=True)
        }

    def _check_manifest_files(self, sizes: Mapping[str, int | None]) -> None:
        """Existence and size, by one listing."""
        for manifest_id, claim in self.found.claims.items():
            users = self.found.users[manifest_id]
            path = self.repository.layout.manifest(manifest_id)
            if path not in sizes:
                self.report.add(missing_manifest(path, users), users)
                continue
            size = sizes[path]
            if self.repository.is_writable and size is not None:
                self.report.extend(check_manifest_size(claim, size), users)


def missing_manifest(path: str, users: Sequence[SnapshotId]) -> Problem:
    return missing(path, f"the snapshot {users[-1]} refers to it")


def collect_logged(
    logs: Iterable[TransactionLog], nodes: Iterable[NodeId]
) -> dict[NodeId, CoordinateSet]:
    """The chunks of these nodes that the logs record."""
    logged = {node_id: CoordinateSet() for node_id in nodes}
    for log in logs:
        for array in log.updated_chunks:
            if array.node_id in logged:
                logged[array.node_id].add(array.chunks)
    return logged


def _content_of(data: bytes | StorageError) -> Content:
    if isinstance(data, ObjectNotFoundError):
        return None
    if isinstance(data, StorageError) and not isinstance(data, ObjectTooLargeError):
        raise data
    return data
