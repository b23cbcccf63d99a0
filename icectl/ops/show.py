"""One commit in full: `icectl show`."""

from __future__ import annotations

from dataclasses import dataclass

from icectl.model.ids import ManifestId
from icectl.model.snapshot import ArrayNodeData, GroupNodeData, ManifestFileInfo
from icectl.ops.log import CommitWithChanges, read_changes_if_there
from icectl.repository.commits import CommitReader, commit_fields
from icectl.repository.repository import Repository


@dataclass(frozen=True, slots=True)
class ManifestFile:
    id: ManifestId
    size_bytes: int
    num_chunk_refs: int


@dataclass(frozen=True, slots=True)
class WholeCommit(CommitWithChanges):
    manifest_files: tuple[ManifestFile, ...]
    num_groups: int
    num_arrays: int
    num_expired_ancestors: int
    """Commits between this one and its parent that were expired; `changes` has theirs too."""


def show_commit(repository: Repository, ref: str) -> WholeCommit:
    snapshot_id = repository.resolve(ref).snapshot_id
    info = repository.snapshot_info(snapshot_id)
    commit = CommitReader(repository).commit(info)
    snapshot = repository.read_snapshot(snapshot_id)
    kinds = [type(node.node_data) for node in snapshot.nodes]
    return WholeCommit(
        **commit_fields(commit),
        changes=read_changes_if_there(repository, info),
        manifest_files=tuple(map(_manifest_file, snapshot.all_manifest_files)),
        num_groups=kinds.count(GroupNodeData),
        num_arrays=kinds.count(ArrayNodeData),
        num_expired_ancestors=len(info.pruned_ancestor_tx_logs or ()),
    )


def _manifest_file(info: ManifestFileInfo) -> ManifestFile:
    return ManifestFile(info.id, info.size_bytes, info.num_chunk_refs)
