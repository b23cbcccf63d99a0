"""The story written by the official package; imported only where that is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_never

import icechunk
import zarr

from icectl.ops.demo.story import (
    INLINE_THRESHOLD,
    Abandon,
    Action,
    Append,
    Change,
    Commit,
    CreateBranch,
    CreateTag,
    DeleteBranch,
    Move,
    NewArray,
    NewGroup,
    Overwrite,
    TakeBack,
)


class OfficialAuthor:
    def __init__(self, directory: Path) -> None:
        icechunk.set_logs_filter("error")
        config = icechunk.RepositoryConfig(inline_chunk_threshold_bytes=INLINE_THRESHOLD)
        self._repository = icechunk.Repository.create(
            icechunk.local_filesystem_storage(str(directory)), config=config
        )

    def act(self, action: Action) -> None:
        repository = self._repository
        match action:
            case Commit(message, (Move(source, target),), branch):
                session = repository.rearrange_session(branch)
                session.move(source, target)
                session.commit(message)
            case Commit(message, changes, branch, metadata):
                session = repository.writable_session(branch)
                _apply(session, changes)
                session.commit(message, metadata=dict(metadata))
            case Abandon(changes):
                _apply(repository.writable_session("main"), changes)
            case CreateBranch(name):
                repository.create_branch(name, repository.lookup_branch("main"))
            case DeleteBranch(name):
                repository.delete_branch(name)
            case CreateTag(name):
                repository.create_tag(name, repository.lookup_branch("main"))
            case TakeBack():
                _tip, parent, *_ = repository.ancestry(branch="main")
                repository.reset_branch("main", parent.id)
            case _:
                assert_never(action)


def _apply(session: Any, changes: tuple[Change, ...]) -> None:
    root: Any = zarr.open_group(session.store, mode="a")
    for change in changes:
        match change:
            case NewGroup("/", attributes):
                root.attrs.update(attributes)
            case NewGroup(path, attributes):
                root.create_group(path, attributes=dict(attributes))
            case NewArray():
                array = root.create_array(
                    change.path,
                    shape=change.shape,
                    chunks=change.chunks,
                    dtype=change.data_type,
                    dimension_names=change.dimension_names,
                    attributes=dict(change.attributes),
                    compressors=None,
                    fill_value=0,
                )
                if change.values is not None:
                    array[...] = change.values
            case Append(path, row):
                array = root[path]
                array.resize((array.shape[0] + 1, *array.shape[1:]))
                array[-1] = row
            case Overwrite(path, index, row):
                root[path][index] = row
            case Move():
                raise ValueError("a commit of moves holds nothing else")
            case _:
                assert_never(change)
