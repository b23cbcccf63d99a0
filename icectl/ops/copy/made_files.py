"""The metadata files that a part of a repository needs and its source does not have."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from icectl.errors import ObjectNotFoundError
from icectl.repository.layout import CONFIG_PATH
from icectl.storage.contract import Storage


def write_files(storage: Storage, files: Iterable[tuple[str, bytes]]) -> None:
    for _, error in storage.write_many(files):
        if error is not None:
            raise error


def copy_config(source: Storage, made: Storage) -> None:
    """The configuration of spec version 1, which may be missing."""
    with suppress(ObjectNotFoundError):
        write_files(made, [(CONFIG_PATH, source.read(CONFIG_PATH))])
