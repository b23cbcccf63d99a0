"""A part of the history in spec version 1, which keeps the parent of a snapshot in its file.

As after an expiration, the oldest copied snapshots keep their ids and get the first snapshot as
their parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from icectl.errors import RefusedError, StorageError
from icectl.format.snapshot import decode_snapshot, encode_snapshot
from icectl.model.ids import SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.ops.copy.made_files import copy_config, write_files
from icectl.ops.copy.state import Selection, find_cut
from icectl.repository.history import State
from icectl.repository.layout import STANDARD
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage


def cut_history(state: Repository, selection: Selection, made: Storage) -> Repository:
    """The state with a part of its history; `made` receives its snapshot files."""
    history = State(state.all_snapshots(), state.branches(), state.tags())
    dropped = {*find_cut(history, selection)}
    parents: dict[str, SnapshotId | None] = {}
    for id_, parent in history.parents.items():
        if id_ not in dropped:
            is_cut = parent in dropped
            root = [*history.ancestry(id_)][-1] if is_cut else None
            parents[STANDARD.snapshot(id_)] = root
    write_files(made, _snapshot_files(state.storage, parents))
    copy_config(state.storage, made)
    return replace(state, storage=made, _read_infos={})


def _snapshot_files(
    source: Storage, new_parents: Mapping[str, SnapshotId | None]
) -> Iterator[tuple[str, bytes]]:
    for path, data in source.read_many(new_parents):
        if isinstance(data, StorageError):
            raise data
        parent = new_parents[path]
        if parent is None:
            yield path, data
        else:
            yield path, encode_snapshot(replace(decode_snapshot(data), parent_id=parent))


def staying(target: Repository, selection: Selection) -> Iterator[SnapshotInfo]:
    """The history of the refs that are not selected."""
    branches = (id_ for name, id_ in target.branches().items() if not selection.has_branch(name))
    tags = (id_ for name, id_ in target.tags().items() if not selection.has_tag(name))
    return target.ancestry_of_all((*branches, *tags))


def check_staying(state: Repository, target: Repository, selection: Selection) -> None:
    """`RefusedError` if the copy would cut the history of refs that are not selected."""
    parents = {one.id: one.parent_id for one in state.all_snapshots()}
    for one in staying(target, selection):
        if parents.get(one.id, one.parent_id) != one.parent_id:
            raise RefusedError(
                f"the copy would cut the history of branches or tags of {target.storage.location} "
                f"that are not selected, at snapshot {one.id}",
                hint="select them as well, or copy to another place",
            )
