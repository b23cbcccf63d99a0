"""The table `objects`: what lies in the storage, whether the repository knows it or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import compute

from icectl.pipeline.units import Unit
from icectl.repository.layout import CONFIG_PATH
from icectl.repository.ops_log import BACKUPS, REPO_PATH
from icectl.repository.repository import Repository
from icectl.storage.contract import WHOLE_DIRECTORY, ListedColumns, ListingShard
from icectl.storage.sharded_listing import plan_listing_shards
from icectl.tables.arrow import joined, masked, repeated, texts
from icectl.tables.schemas import INTEGER, SCHEMAS, TIME
from icectl.tables.scope import Conditions, Scope, admits

OTHER = "other"
ROOT_KINDS = {REPO_PATH: "repo", CONFIG_PATH: "config"}
# The text of 12 bytes ends in 4 bits of zero, that of 16 bytes in 2.
_ID = r"\A(?:[0-9A-HJKMNP-TV-Z]{19}[0G]|[0-9A-HJKMNP-TV-Z]{25}[048CGMRW])\z"


@dataclass(frozen=True, slots=True)
class Shard:
    directory: str
    kind: str | None
    """None in the root, where each file has its own."""
    names: ListingShard = WHOLE_DIRECTORY


def plan(repository: Repository, _scope: Scope, conditions: Conditions) -> list[Unit]:
    kinds = _directories(repository)
    shards = [
        Shard(directory, kind, names)
        for directory, kind in kinds.items()
        if admits(conditions, "kind", kind)
        for names in (
            plan_listing_shards(repository.storage.listing_shards())
            if kind == "chunk"
            else (WHOLE_DIRECTORY,)
        )
    ]
    work = [Unit((shard,)) for shard in shards]
    if any(admits(conditions, "kind", kind) for kind in (*ROOT_KINDS.values(), OTHER)):
        work.append(Unit(tuple(Shard("", None, names) for names in _beside(sorted(kinds)))))
    return work


def _directories(repository: Repository) -> dict[str, str]:
    layout = repository.layout
    kinds = {
        layout.refs: "ref",
        layout.snapshots: "snapshot",
        layout.manifests: "manifest",
        layout.chunks: "chunk",
        BACKUPS: "backup",
    }
    if layout.transactions is not None:
        kinds[layout.transactions] = "transaction_log"
    if layout.attributes is not None:
        kinds[layout.attributes] = "attributes"
    return kinds


def _beside(directories: list[str]) -> Iterator[ListingShard]:
    """The ranges of names in the root that are in none of the directories."""
    after = ""
    for directory in directories:
        yield ListingShard(after, f"{directory}/")
        after = directory + chr(ord("/") + 1)
    yield ListingShard(after)


def read(
    repository: Repository, items: Sequence[Shard], columns: Sequence[str], _conditions: Conditions
) -> Iterator[Any]:
    batches = (
        _batch(shard, part).select(list(columns))
        for shard in items
        for part in repository.storage.list_columns(shard.directory, shard=shard.names)
        if len(part.names)
    )
    return joined(batches)


def _batch(shard: Shard, part: ListedColumns) -> Any:
    names = texts(part.names)
    if shard.kind is None:
        kinds = texts([ROOT_KINDS.get(name, OTHER) for name in part.names])
        ids, paths = repeated(None, len(names)), names
    else:
        kinds = repeated(shard.kind, len(names))
        ids = masked(names, compute.match_substring_regex(names, _ID).to_numpy(False))
        paths = compute.binary_join_element_wise(pa.scalar(shard.directory), names, "/")
    sizes, times = pa.array(part.sizes, INTEGER), pa.array(part.created_at, INTEGER).cast(TIME)
    return pa.RecordBatch.from_arrays([kinds, ids, paths, sizes, times], schema=SCHEMAS["objects"])
