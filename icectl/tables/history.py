"""The tables `refs`, `snapshots` and `ops_log`: what the repository says of itself.

They are small, so that one task reads each of them, from the newest state of the repository.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from icectl.errors import RefNotFoundError
from icectl.model.ids import ObjectId, SnapshotId
from icectl.model.repo import RepoStatus, UpdateType
from icectl.repository.commits import CommitReader
from icectl.repository.ops_log import OpsLogBeyondReach, read_ops_log
from icectl.repository.repository import Repository
from icectl.tables.scope import Conditions, Scope, admits, select_history

Row = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def refs_rows(repository: Repository, _scope: Scope, conditions: Conditions) -> Iterator[Row]:
    kinds: dict[str, Mapping[str, SnapshotId | None]] = {
        "branch": repository.branches(),
        "tag": repository.tags(),
        "deleted_tag": dict.fromkeys(repository.deleted_tags()),
    }
    for kind, targets in kinds.items():
        if admits(conditions, "kind", kind):
            for name in sorted(targets):
                yield {"kind": kind, "name": name, "snapshot_id": _text(targets[name])}


def snapshots_rows(repository: Repository, scope: Scope, conditions: Conditions) -> Iterator[Row]:
    reader = CommitReader(repository)
    depths: dict[SnapshotId, int] = {}
    for info in select_history(repository, scope, conditions):
        commit = reader.commit(info)
        yield {
            "snapshot_id": str(info.id),
            "parent_id": _text(info.parent_id),
            "depth": _depth(repository, info.id, depths),
            "flushed_at": info.flushed_at,
            "message": info.message,
            "metadata": json_text(commit.metadata),
            "pruned_ancestor_tx_logs": [str(id_) for id_ in info.pruned_ancestor_tx_logs or ()],
        }


def _depth(
    repository: Repository, snapshot_id: SnapshotId, known: dict[SnapshotId, int]
) -> int | None:
    """The number of ancestors; null where one of them is not there any more."""
    path: list[SnapshotId] = []
    depth = -1
    try:
        for info in repository.ancestry(snapshot_id):
            if info.id in known:
                depth = known[info.id]
                break
            path.append(info.id)
    except RefNotFoundError:
        return None
    for id_ in reversed(path):
        depth += 1
        known[id_] = depth
    return known[snapshot_id]


def ops_log_rows(repository: Repository, _scope: Scope, conditions: Conditions) -> Iterator[Row]:
    if repository.info is None:
        return
    for position, entry in enumerate(read_ops_log(repository.storage, repository.info)):
        if isinstance(entry, OpsLogBeyondReach):
            raise entry.error
        update = entry.update.update_type
        if not admits(conditions, "kind", update.kind):
            continue
        details = _fields(update)
        new_id = details.get("new_snap_id")
        yield {
            "position": position,
            "kind": update.kind,
            "updated_at": entry.update.updated_at,
            "backup_path": entry.update.backup_path,
            "ref": details.get("name", details.get("branch")),
            "snapshot_id": _text(entry.target) if new_id is None else new_id,
            "previous_snapshot_id": details.get("previous_snap_id"),
            "details": json_text(details),
        }


def _fields(value: UpdateType | RepoStatus) -> Row:
    """A kind's own fields by the specification's names, ids as texts."""
    row: Row = {}
    for field in fields(value):
        content = getattr(value, field.name)
        if isinstance(content, RepoStatus):
            content = _fields(content)
        elif field.name.endswith("_at"):
            content = (EPOCH + timedelta(microseconds=content)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        row[field.name] = str(content) if isinstance(content, ObjectId) else content
    return row


def json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    return b64encode(value).decode() if isinstance(value, bytes | bytearray) else str(value)


def _text(value: object | None) -> str | None:
    return None if value is None else str(value)
