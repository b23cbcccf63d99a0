"""One table of one repository: planned once, read partition by partition, anywhere.

A scan and its partitions are picklable and hold no data of the table, no connection and no
credentials: those come from the environment of whoever reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icectl.errors import UsageError
from icectl.pipeline.table_files import read_parts
from icectl.pipeline.units import Unit
from icectl.repository.open import open_repository, repository_at
from icectl.repository.operations import read_backup
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage
from icectl.tables import changes, chunk_refs, content, history, objects
from icectl.tables.arrow import batches_of
from icectl.tables.names import check_table
from icectl.tables.schemas import SCHEMAS
from icectl.tables.scope import Conditions, Scope

Planner = Callable[[Repository, Scope, Conditions], list[Unit]]
Reader = Callable[[Repository, Sequence[Any], Sequence[str], Conditions], Iterator[Any]]
Rows = Callable[[Repository, Scope, Conditions], Iterator[dict[str, Any]]]

PARTITIONED: Mapping[str, tuple[Planner, Reader]] = {
    "nodes": (content.plan, content.read_nodes),
    "manifests": (content.plan, content.read_manifests),
    "chunk_refs": (chunk_refs.plan, chunk_refs.read),
    "changes": (changes.plan, changes.read),
    "objects": (objects.plan, objects.read),
}
WHOLE: Mapping[str, Rows] = {
    "refs": history.refs_rows,
    "snapshots": history.snapshots_rows,
    "ops_log": history.ops_log_rows,
}
USUAL_SCOPE = Scope()


@dataclass(frozen=True, slots=True)
class Partition:
    unit: Unit
    repository: Repository | None
    """For reading files, without refs and history; None if the reader opens it again."""


@dataclass(frozen=True, slots=True)
class TableScan:
    storage: Storage
    table: str
    scope: Scope = USUAL_SCOPE
    columns: tuple[str, ...] = ()
    """None given: all of them."""
    conditions: Conditions = ()

    def __post_init__(self) -> None:
        check_table(self.table)
        for name in self.columns:
            if name not in SCHEMAS[self.table].names:
                raise UsageError(
                    f"the table {self.table} has no column {name!r}",
                    hint=f"its columns are {', '.join(SCHEMAS[self.table].names)}",
                )

    @property
    def schema(self) -> Any:
        whole = SCHEMAS[self.table]
        return pa.schema([whole.field(name) for name in self.columns]) if self.columns else whole

    def plan(self) -> list[Partition]:
        repository = self._open()
        if self.table in WHOLE:
            return [Partition(Unit(()), None)]
        plan, _ = PARTITIONED[self.table]
        # The repo info file can be large; it stays with the planner.
        files = repository.without_history()
        return [Partition(unit, files) for unit in plan(repository, self.scope, self.conditions)]

    def read(self, partition: Partition) -> Iterator[Any]:
        """The rows of one partition as Arrow record batches of `schema`."""
        names = tuple(self.schema.names)
        if partition.repository is None:
            rows = WHOLE[self.table](self._open(), self.scope, self.conditions)
            return batches_of(SCHEMAS[self.table], names, rows)
        _, read = PARTITIONED[self.table]
        return read(partition.repository, partition.unit.items, names, self.conditions)

    def _open(self) -> Repository:
        if self.scope.backup is None:
            return open_repository(self.storage)
        return repository_at(self.storage, read_backup(self.storage, self.scope.backup))


def read_table(scan: TableScan, partitions: Sequence[Partition] | None = None) -> Iterator[Any]:
    """Every batch of the table in this process, partitions in their order, some ahead."""
    return read_parts(scan.read, scan.plan() if partitions is None else partitions)
