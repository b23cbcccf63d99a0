"""Create a repository: `icectl init`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.ops.config_keys import check_on_storage
from icectl.repository.initialize import initialize_repository
from icectl.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class NewRepository:
    location: str
    spec_version: int
    snapshot_id: SnapshotId


def create_repository(
    storage: Storage,
    *,
    spec_version: int,
    config: Mapping[str, object],
    metadata: Mapping[str, object],
) -> NewRepository:
    check_on_storage(config, storage)
    initialize_repository(storage, spec_version=spec_version, config=config, metadata=metadata)
    return NewRepository(storage.location, spec_version, INITIAL_SNAPSHOT_ID)
