"""A snapshot file compared with the specification and with the repo file. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from icectl.checks import rules
from icectl.checks.node import check_node, unknown_kind
from icectl.checks.order import first_disorder
from icectl.checks.problem import UNREADABLE, Found, Problem, unreadable, wrong_id
from icectl.checks.rules import Rule
from icectl.errors import FormatError
from icectl.format.node_columns import decode_snapshot_columns
from icectl.format.values import decode_metadata
from icectl.model.ids import ManifestId, NodeId, SnapshotId
from icectl.model.node_columns import ARRAY, GROUP, NodeColumns, SnapshotColumns, byte_rows
from icectl.model.repo import SnapshotInfo
from icectl.model.snapshot import (
    ArrayNodeData,
    NodeSnapshot,
    Snapshot,
    UnknownNodeData,
    path_sort_key,
)
from icectl.repository.history import find_cycles
from icectl.repository.layout import STANDARD, Layout


@dataclass(slots=True)
class CheckedNodes:
    """The nodes of a snapshot in the order of the file, and what is wrong with single ones."""

    ids: list[bytes] = field(default_factory=list)
    contents: list[tuple[Hashable, ...]] = field(default_factory=list)
    nodes: list[NodeSnapshot] = field(default_factory=list)
    problems: dict[int, tuple[tuple[Rule, str], ...]] = field(default_factory=dict)
    """By row."""
    rows: dict[bytes, int] = field(default_factory=dict)
    changed: list[NodeSnapshot] = field(default_factory=list)
    """The nodes that the earlier snapshot does not have."""


@dataclass(frozen=True, slots=True, eq=False)
class CheckedSnapshot:
    """A snapshot that can be used."""

    columns: SnapshotColumns
    checked: CheckedNodes


def check_nodes(columns: NodeColumns, before: CheckedNodes) -> CheckedNodes:
    """Decode and check the nodes, except those that an earlier snapshot has as well."""
    ids, contents = byte_rows(columns.id), columns.contents()
    if ids == before.ids:
        found = CheckedNodes(
            ids, contents, before.nodes.copy(), before.problems.copy(), before.rows
        )
        pairs = zip(contents, before.contents, strict=True)
        new = [row for row, (content, old) in enumerate(pairs) if content != old]
        for row in new:
            found.nodes[row] = columns.read(row)
    else:
        found = CheckedNodes(ids, contents, rows=dict(zip(ids, range(len(ids)), strict=True)))
        new = []
        for row, (node_id, content) in enumerate(zip(ids, contents, strict=True)):
            old_row = before.rows.get(node_id)
            if old_row is None or before.contents[old_row] != content:
                new.append(row)
                found.nodes.append(columns.read(row))
                continue
            found.nodes.append(before.nodes[old_row])
            if old_row in before.problems:
                found.problems[row] = before.problems[old_row]
    for row in new:
        node = found.nodes[row]
        found.changed.append(node)
        found.problems.pop(row, None)
        if problems := check_node(node):
            found.problems[row] = problems
    return found


def check_snapshot(
    data: bytes,
    snapshot_id: SnapshotId,
    info: SnapshotInfo | None,
    before: CheckedNodes,
) -> tuple[CheckedSnapshot | None, list[Problem]]:
    """The snapshot, if it can be used, and all problems of its file.

    `info` is the entry of the snapshot in the repo file; None in spec version 1. `before` has the
    nodes of another snapshot, which need not be decoded and checked again.
    """
    path = STANDARD.snapshot(snapshot_id)
    try:
        columns = decode_snapshot_columns(data)
    except UNREADABLE as error:
        return None, [unreadable(rules.SNAPSHOT_UNREADABLE, path, error)]
    problems = [*check_snapshot_id(columns, snapshot_id)]
    if problems:
        return None, problems
    if info is None and columns.spec_version < 2:
        problems += check_parent_v1(columns)
    nodes = check_nodes(columns.nodes, before)
    problems += (
        Problem(rule, path, detail, node)
        for rule, detail, node in (
            *_check_version(columns),
            *_check_info(columns, info),
            *_check_metadata(columns),
            *_check_nodes(nodes),
        )
    )
    problems += [*check_manifest_repeats(columns)] or _check_manifest_order(columns)
    problems += check_manifest_use(columns)
    return CheckedSnapshot(columns, nodes), problems


def check_snapshot_id(
    snapshot: Snapshot | SnapshotColumns, expected: SnapshotId
) -> Iterator[Problem]:
    if snapshot.id != expected:
        yield wrong_id(rules.SNAPSHOT_ID, STANDARD.snapshot(expected), snapshot.id)


def check_parent_v1(snapshot: Snapshot | SnapshotColumns) -> Iterator[Problem]:
    """In a repository of spec version 1, a lost parent would hide all older versions."""
    if snapshot.has_lost_parent:
        detail = "it has no parent, but it is not the initial snapshot"
        yield Problem(rules.SNAPSHOT_PARENT, STANDARD.snapshot(snapshot.id), detail)


def check_ancestry_v1(
    parents: Mapping[SnapshotId, SnapshotId | None], layout: Layout = STANDARD
) -> Iterator[Problem]:
    """Snapshot files name their parents before spec version 2; none descends from itself."""
    for cycle in find_cycles(parents):
        detail = f"its parent {cycle[0]} descends from it"
        yield Problem(rules.ANCESTRY_LOOP, layout.snapshot(cycle[-1]), detail)


def _check_version(snapshot: SnapshotColumns) -> Iterator[Found]:
    nodes = snapshot.nodes
    if snapshot.spec_version >= 2:
        if snapshot.parent_id is not None:
            yield rules.SNAPSHOT_PARENT, f"it names the parent {snapshot.parent_id}", None
        if snapshot.num_manifest_files_v1 or not snapshot.has_manifest_files_v2:
            yield rules.SNAPSHOT_VERSION, "it uses the manifest list of version 1", None
        wrong = nodes.is_array() & (nodes.uses_shape_v1 | ~nodes.has_shape_v2)
    else:
        if snapshot.has_manifest_files_v2:
            yield rules.SNAPSHOT_VERSION, "it uses the manifest list of version 2", None
        wrong = nodes.has_shape_v2
    other = 1 if snapshot.spec_version >= 2 else 2
    for row in np.flatnonzero(wrong).tolist():
        detail = f"it uses the shape of version {other}"
        yield rules.SNAPSHOT_VERSION, detail, nodes.path[row].decode()


def _check_info(snapshot: SnapshotColumns, info: SnapshotInfo | None) -> Iterator[Found]:
    if info is None:
        return
    for name in ("message", "flushed_at"):
        here, there = getattr(snapshot, name), getattr(info, name)
        if here != there:
            yield rules.SNAPSHOT_INFO, f"{name} is {here!r}, in the repo file {there!r}", None
    # After a migration the same values are encoded in two ways.
    if snapshot.spec_version >= 2:
        mine = {item.name: item.value for item in snapshot.metadata}
        theirs = {item.name: item.value for item in info.metadata or ()}
        if mine != theirs:
            names = sorted(
                name for name in mine.keys() | theirs if mine.get(name) != theirs.get(name)
            )
            yield rules.SNAPSHOT_INFO, f"the metadata differs in {', '.join(names[:5])}", None


def _check_metadata(snapshot: SnapshotColumns) -> Iterator[Found]:
    number = first_disorder([item.name.encode() for item in snapshot.metadata])
    if number is not None:
        name = snapshot.metadata[number].name
        yield rules.SNAPSHOT_METADATA, f"{name!r} is out of order or a duplicate", None
    try:
        decode_metadata(snapshot.metadata, snapshot.spec_version)
    except FormatError as error:
        yield rules.SNAPSHOT_METADATA, error.reason, None
    for unknown in snapshot.unknown_fields:
        yield rules.NODE_UNKNOWN, f"unknown field {unknown.slot} of {unknown.table}", None


def _check_nodes(checked: CheckedNodes) -> Iterator[Found]:
    nodes = checked.nodes
    number = first_disorder([node.path.encode() for node in nodes])
    if number is not None:
        by_component = first_disorder([path_sort_key(node.path) for node in nodes]) is None
        rule = rules.NODE_COMPONENT_ORDER if by_component else rules.NODE_ORDER
        yield rule, f"it comes after {nodes[number - 1].path}", nodes[number].path
    if len(checked.rows) < len(nodes):
        paths: dict[NodeId, list[str]] = defaultdict(list)
        for node in nodes:
            paths[node.id].append(node.path)
        for node_id, same in paths.items():
            if len(same) > 1:
                yield rules.NODE_ID_TWICE, f"{same[1]} also has the id {node_id}", same[0]
    groups = {node.path for node in nodes if not isinstance(node.node_data, ArrayNodeData)}
    for row, node in enumerate(nodes):
        for rule, detail in checked.problems.get(row, ()):
            yield rule, detail, node.path
        above = node.path.rpartition("/")[0] or "/"
        if node.path != "/" and above not in groups:
            yield rules.NODE_PARENT, f"there is no group {above}", node.path


def check_node_kinds(snapshot: SnapshotColumns) -> Iterator[Problem]:
    """A node of an unknown kind may refer to objects in an unknown way."""
    kind = snapshot.nodes.kind
    for row in np.flatnonzero((kind != ARRAY) & (kind != GROUP)).tolist():
        node = snapshot.nodes.read(row)
        assert isinstance(node.node_data, UnknownNodeData)
        detail = unknown_kind(node.node_data)
        yield Problem(rules.NODE_UNKNOWN, STANDARD.snapshot(snapshot.id), detail, node.path)


def check_manifest_repeats(snapshot: SnapshotColumns) -> Iterator[Problem]:
    ids = byte_rows(snapshot.manifest_files.id)
    if len(set(ids)) < len(ids):
        first = next(id_ for number, id_ in enumerate(ids) if id_ in ids[:number])
        detail = f"the manifest {ManifestId(first)} is listed twice"
        yield Problem(rules.MANIFEST_LIST, STANDARD.snapshot(snapshot.id), detail)


def _check_manifest_order(snapshot: SnapshotColumns) -> Iterator[Problem]:
    ids = byte_rows(snapshot.manifest_files.id)
    count = snapshot.num_manifest_files_v1
    for part in (ids[:count], ids[count:]):
        number = first_disorder(part)
        if number is not None:
            detail = f"{ManifestId(part[number])} comes after {ManifestId(part[number - 1])}"
            yield Problem(rules.MANIFEST_LIST, STANDARD.snapshot(snapshot.id), detail)


def check_manifest_use(snapshot: SnapshotColumns) -> Iterator[Problem]:
    """The listed manifests are those that arrays refer to."""
    nodes = snapshot.nodes
    listed = set(byte_rows(snapshot.manifest_files.id))
    references = byte_rows(nodes.manifest_id)
    used = set(references)
    if used == listed:
        return
    path = STANDARD.snapshot(snapshot.id)
    rows = {id_: row for row, id_ in enumerate(references)}
    for id_ in sorted(used - listed):
        node = int(np.searchsorted(nodes.first_manifest, rows[id_], "right")) - 1
        detail = f"the manifest {ManifestId(id_)}"
        yield Problem(rules.MANIFEST_UNLISTED, path, detail, nodes.path[node].decode())
    for id_ in sorted(listed - used):
        yield Problem(rules.MANIFEST_UNUSED, path, f"the manifest {ManifestId(id_)}")
