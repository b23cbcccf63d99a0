"""The tables and what each of them holds, for help texts and messages; without pyarrow."""

from __future__ import annotations

from collections.abc import Mapping

from icectl.errors import UsageError
from icectl.repository.names import nearest_hint

TABLES: Mapping[str, str] = {
    "refs": "branches, tags and deleted tags",
    "snapshots": "the history: each snapshot with its parent and its depth",
    "nodes": "groups and arrays of a snapshot",
    "manifests": "manifest files of a snapshot, with size and number of references",
    "chunk_refs": "where each chunk of a snapshot is",
    "changes": "what each commit changed, from the transaction logs",
    "ops_log": "operations on the repository (none before spec version 2)",
    "objects": "what lies in the storage",
}


def check_table(name: str) -> None:
    if name not in TABLES:
        raise UsageError(
            f"there is no table {name!r}", hint=nearest_hint(name, TABLES) or tables_hint()
        )


def tables_hint() -> str:
    return f"the tables are {', '.join(TABLES)}"
