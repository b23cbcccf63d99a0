"""Requests that do not depend on each other are made at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from icectl.errors import StorageError
from icectl.ops.gc.run import GcOptions, plan_run
from icectl.pipeline.listings import Listings
from icectl.pipeline.objects import ObjectKind
from icectl.pipeline.progress import Progress
from icectl.storage.local import LocalStorage
from tests.gc.repositories import messy_repository, now, planned_paths
from tests.patience import PATIENCE_SECONDS


class SlowSnapshots(LocalStorage):
    """Answers reads of snapshots only after all directories were asked for."""

    is_object_store = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.listed = {kind.directory: Event() for kind in ObjectKind}

    def list_names(self, prefix: str) -> Iterator[Sequence[str]]:
        self.listed[prefix].set()
        return super().list_names(prefix)

    def read_many(
        self, paths: Iterable[str], **options: Any
    ) -> Iterator[tuple[str, bytes | StorageError]]:
        paths = list(paths)
        if any(path.startswith("snapshots/") for path in paths):
            for event in self.listed.values():
                assert event.wait(PATIENCE_SECONDS)
        return super().read_many(paths, **options)


def test_all_directories_are_listed_while_snapshots_are_read(tmp_path: Path) -> None:
    messy_repository(tmp_path)
    options = GcOptions(now())
    expected = planned_paths(plan_run(LocalStorage(tmp_path), options).plan)
    assert planned_paths(plan_run(SlowSnapshots(tmp_path), options).plan) == expected


def test_a_listing_that_is_not_needed(tmp_path: Path) -> None:
    messy_repository(tmp_path)
    with Listings(LocalStorage(tmp_path), Progress()) as listings:
        listings.begin(ObjectKind.CHUNK)
        listings.abandon(ObjectKind.CHUNK)
        with pytest.raises(KeyError):
            listings.wait_for(ObjectKind.CHUNK)
        listings.begin(ObjectKind.CHUNK)
        assert len(listings.wait_for(ObjectKind.CHUNK))
