"""One snapshot file against the specification and the repo file. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from icectl.errors import FormatError
from icectl.format.snapshot import decode_snapshot
from icectl.format.values import decode_metadata
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.model.snapshot import ArrayNodeData, Snapshot, path_sort_key
from icectl.ops.gc.objects import ObjectKind
from icectl.ops.validate import metadata_rules as rules
from icectl.ops.validate.check_node import check_extents, check_node
from icectl.ops.validate.check_repo import first_disorder
from icectl.ops.validate.problem import UNREADABLE, Problem, unreadable
from icectl.ops.validate.rule import Rule


def check_snapshot(
    data: bytes, snapshot_id: SnapshotId, info: SnapshotInfo | None
) -> tuple[Snapshot | None, list[Problem]]:
    """The snapshot, and everything that is wrong with its file alone; `info` is what repo says."""
    path = ObjectKind.SNAPSHOT.path(snapshot_id)
    try:
        snapshot = decode_snapshot(data)
    except UNREADABLE as error:
        return None, [unreadable(rules.SNAPSHOT_UNREADABLE, path, error)]
    if snapshot.id != snapshot_id:
        problem = Problem(rules.SNAPSHOT_ID, path, f"it says that it is {snapshot.id}")
        return None, [problem]
    problems = [
        Problem(rule, path, detail, node)
        for rule, detail, node in (
            *_check_version(snapshot, info is not None),
            *_check_info(snapshot, info),
            *_check_metadata(snapshot),
            *_check_nodes(snapshot),
            *_check_manifests(snapshot),
        )
    ]
    return snapshot, problems


Found = tuple[Rule, str, str | None]


def _check_version(snapshot: Snapshot, in_repo: bool) -> Iterator[Found]:
    arrays = [node for node in snapshot.nodes if isinstance(node.node_data, ArrayNodeData)]
    if snapshot.spec_version >= 2:
        if snapshot.parent_id is not None:
            yield rules.SNAPSHOT_PARENT, f"it names the parent {snapshot.parent_id}", None
        if snapshot.manifest_files or snapshot.manifest_files_v2 is None:
            yield rules.SNAPSHOT_VERSION, "its manifests are in the list of version 1", None
        for node in arrays:
            assert isinstance(node.node_data, ArrayNodeData)
            if node.node_data.shape or node.node_data.shape_v2 is None:
                yield rules.SNAPSHOT_VERSION, "its shape is that of version 1", node.path
        return
    if snapshot.has_lost_parent and not in_repo:
        yield rules.SNAPSHOT_PARENT, "it has no parent, yet it is not the first one", None
    if snapshot.manifest_files_v2 is not None:
        yield rules.SNAPSHOT_VERSION, "its manifests are in the list of version 2", None
    for node in arrays:
        assert isinstance(node.node_data, ArrayNodeData)
        if node.node_data.shape_v2 is not None:
            yield rules.SNAPSHOT_VERSION, "its shape is that of version 2", node.path


def _check_info(snapshot: Snapshot, info: SnapshotInfo | None) -> Iterator[Found]:
    if info is None:
        return
    for name in ("message", "flushed_at"):
        here, there = getattr(snapshot, name), getattr(info, name)
        if here != there:
            yield rules.SNAPSHOT_INFO, f"{name} is {here!r}, the repo file says {there!r}", None
    # After a migration the same values are encoded in two ways.
    if snapshot.spec_version >= 2:
        mine = {item.name: item.value for item in snapshot.metadata}
        theirs = {item.name: item.value for item in info.metadata or ()}
        if mine != theirs:
            names = sorted(
                name for name in mine.keys() | theirs if mine.get(name) != theirs.get(name)
            )
            yield rules.SNAPSHOT_INFO, f"the metadata differs in {', '.join(names[:5])}", None


def _check_metadata(snapshot: Snapshot) -> Iterator[Found]:
    number = first_disorder([item.name.encode() for item in snapshot.metadata])
    if number is not None:
        name = snapshot.metadata[number].name
        yield rules.SNAPSHOT_METADATA, f"{name!r} is out of order or there twice", None
    try:
        decode_metadata(snapshot.metadata, snapshot.spec_version)
    except FormatError as error:
        yield rules.SNAPSHOT_METADATA, error.reason, None
    for field in snapshot.unknown_fields:
        yield rules.NODE_UNKNOWN, f"field {field.slot} of {field.table} is not known", None


def _check_nodes(snapshot: Snapshot) -> Iterator[Found]:
    nodes = snapshot.nodes
    number = first_disorder([node.path.encode() for node in nodes])
    if number is not None:
        by_component = first_disorder([path_sort_key(node.path) for node in nodes]) is None
        rule = rules.NODE_COMPONENT_ORDER if by_component else rules.NODE_ORDER
        yield rule, f"it stands behind {nodes[number - 1].path}", nodes[number].path
    paths: dict[NodeId, list[str]] = defaultdict(list)
    for node in nodes:
        paths[node.id].append(node.path)
    for node_id, same in paths.items():
        if len(same) > 1:
            yield rules.NODE_ID_TWICE, f"{node_id} is also {same[1]}", same[0]
    groups = {node.path for node in nodes if not isinstance(node.node_data, ArrayNodeData)}
    for node in nodes:
        for rule, detail in check_node(node):
            yield rule, detail, node.path
        above = node.path.rpartition("/")[0] or "/"
        if node.path != "/" and above not in groups:
            yield rules.NODE_PARENT, f"there is no group {above}", node.path
        if isinstance(node.node_data, ArrayNodeData):
            for rule, detail in check_extents(node.node_data.manifests, node.node_data.num_chunks):
                yield rule, detail, node.path


def _check_manifests(snapshot: Snapshot) -> Iterator[Found]:
    for files in (snapshot.manifest_files, snapshot.manifest_files_v2 or ()):
        number = first_disorder([file.id for file in files])
        if number is not None:
            yield rules.MANIFEST_LIST, f"{files[number].id} behind {files[number - 1].id}", None
    listed = {file.id for file in snapshot.all_manifest_files}
    used: dict[ManifestId, str] = {}
    for node in snapshot.nodes:
        if isinstance(node.node_data, ArrayNodeData):
            used.update((ref.object_id, node.path) for ref in node.node_data.manifests)
    for manifest_id in sorted(used.keys() - listed):
        yield rules.MANIFEST_UNLISTED, f"the manifest {manifest_id}", used[manifest_id]
    for manifest_id in sorted(listed - used.keys()):
        yield rules.MANIFEST_UNUSED, f"the manifest {manifest_id}", None
