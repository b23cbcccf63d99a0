"""Write the story with the official package; imported only if that is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_never

import icechunk
import zarr

from icectl.demo import story


class OfficialAuthor:
    def __init__(self, directory: Path) -> None:
        icechunk.set_logs_filter("error")
        config = icechunk.RepositoryConfig(inline_chunk_threshold_bytes=story.INLINE_THRESHOLD)
        self._repository = icechunk.Repository.create(
            icechunk.local_filesystem_storage(str(directory)), config=config
        )

    def act(self, action: story.Action) -> None:
        repository = self._repository
        match action:
            case story.Commit(message, (story.Move(source, target),), branch):
                session = repository.rearrange_session(branch)
                session.move(source, target)
                session.commit(message)
            case story.Commit(message, changes, branch, metadata):
                session = repository.writable_session(branch)
                _apply(session, changes)
                session.commit(message, metadata=dict(metadata))
            case story.Abandon(changes):
                _apply(repository.writable_session("main"), changes)
            case story.CreateBranch(name):
                repository.create_branch(name, repository.lookup_branch("main"))
            case story.DeleteBranch(name):
                repository.delete_branch(name)
            case story.CreateTag(name):
                repository.create_tag(name, repository.lookup_branch("main"))
            case story.ResetMain():
                _tip, parent, *_ = repository.ancestry(branch="main")
                repository.reset_branch("main", parent.id)
            case _:
                assert_never(action)


def _apply(session: Any, changes: tuple[story.Change, ...]) -> None:
    root: Any = zarr.open_group(session.store, mode="a")
    for change in changes:
        match change:
            case story.NewGroup("/", attributes):
                root.attrs.update(attributes)
            case story.NewGroup(path, attributes):
                root.create_group(path, attributes=dict(attributes))
            case story.NewArray():
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
            case story.Append(path, row):
                array = root[path]
                array.resize((array.shape[0] + 1, *array.shape[1:]))
                array[-1] = row
            case story.Overwrite(path, index, row):
                root[path][index] = row
            case story.Move():
                raise ValueError("a commit with a move must contain only moves")
            case _:
                assert_never(change)
