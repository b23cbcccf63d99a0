"""Groups and arrays of two versions: from the logs where they serve, else by content."""

from __future__ import annotations

from dataclasses import replace

from icectl.errors import RefNotFoundError, Remedy
from icectl.model.node_table import NodeTable
from icectl.ops.diff.by_content import diff_by_content
from icectl.ops.diff.from_logs import LogsInsufficientError, diff_from_logs, read_log_changes
from icectl.ops.diff.nodes import PathFilter
from icectl.ops.diff.result import NodeDiff
from icectl.ops.diff.versions import Versions
from icectl.pipeline.progress import Progress
from icectl.repository.names import nearest_hint
from icectl.repository.repository import Repository


def diff_nodes(
    repository: Repository,
    versions: Versions,
    *,
    path: str = "/",
    progress: Progress | None = None,
) -> NodeDiff:
    """What happened to the nodes at `path` and below; `NodeDiff.fallback` says why not by logs."""
    tables = repository.read_node_tables({versions.from_id, versions.to_id})
    before, after = tables[versions.from_id], tables[versions.to_id]
    within = _path_filter(path, before, after)
    fallback = None
    diff = None
    if versions.log_ids is not None:
        try:
            changes = read_log_changes(repository, versions.log_ids, progress or Progress())
            diff = diff_from_logs(changes, before, after, within)
        except LogsInsufficientError as error:
            fallback = str(error)
    return replace(
        diff or diff_by_content(before, after, within),
        num_chunk_refs={**before.num_chunk_refs, **after.num_chunk_refs},
        fallback=fallback,
    )


def _path_filter(path: str, before: NodeTable, after: NodeTable) -> PathFilter:
    root = "/" + path.strip("/")
    if root == "/":
        return lambda _path: True
    if root not in before.by_path and root not in after.by_path:
        raise RefNotFoundError(
            f"neither version has a node {root}",
            hint=nearest_hint(root, sorted({*before.by_path, *after.by_path} - {"/"}))
            or Remedy("list-newer-nodes", {"snapshot": str(after.snapshot_id)}),
        )
    return lambda path: path == root or path.startswith(f"{root}/")
