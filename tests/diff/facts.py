"""A diff of ours in the form of `tests.official.diff_facts`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from icectl.ops.diff.chunks import read_chunk_changes
from icectl.ops.diff.nodes import diff_nodes
from icectl.ops.diff.result import ChunkChanges, NodeDiff
from icectl.ops.diff.versions import Versions, select_versions
from icectl.render.diff import NODE_LISTS
from icectl.repository.open import open_repository
from icectl.repository.repository import Repository
from icectl.storage.open import open_storage


def open_ours(directory: Path) -> Repository:
    return open_repository(open_storage(str(directory), {}))


def by_logs(repository: Repository, from_: str, to: str) -> tuple[NodeDiff, list[ChunkChanges]]:
    versions = select_versions(repository, from_, to)
    assert versions.log_ids is not None
    diff = diff_nodes(repository, versions)
    return diff, list(read_chunk_changes(repository, diff))


def by_content(repository: Repository, from_: str, to: str) -> tuple[NodeDiff, list[ChunkChanges]]:
    versions = select_versions(repository, from_, to)
    diff = diff_nodes(repository, Versions(versions.from_id, versions.to_id, None))
    return diff, list(read_chunk_changes(repository, diff))


def our_facts(diff: NodeDiff, chunks: list[ChunkChanges]) -> dict[str, Any]:
    return {
        **{name: sorted(getattr(diff, name)) for name in NODE_LISTS},
        "updated_chunks": {changes.path: all_chunks(changes) for changes in chunks},
        "moved_nodes": [[move.from_, move.to] for move in diff.moved_nodes],
    }


def all_chunks(changes: ChunkChanges) -> list[list[int]]:
    return sorted(row for block in changes.chunks for row in block.tolist())


def rows(coordinates: Any) -> set[tuple[int, ...]]:
    return {tuple(row) for row in coordinates.tolist()}
