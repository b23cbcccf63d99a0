"""Create a new repository.

The decisive file is written last, and only if it does not exist: `repo` in spec version 2, the
branch `main` in version 1. If two processes race, one wins. The remains of a killed attempt (the
initial snapshot and its log) do not hinder the next one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from icectl.errors import FormatError, PreconditionFailedError, RefusedError, Remedy, UsageError
from icectl.format.config import encode_config_yaml
from icectl.format.refs import encode_ref
from icectl.format.repo import encode_repo
from icectl.format.snapshot import decode_snapshot, encode_snapshot
from icectl.format.transaction_log import encode_transaction_log
from icectl.format.values import encode_flexbuffers, encode_metadata
from icectl.model.ids import INITIAL_SNAPSHOT_ID
from icectl.model.repo import (
    Availability,
    Ref,
    RepoInfo,
    RepoInitializedUpdate,
    RepoStatus,
    SnapshotInfo,
    Update,
)
from icectl.model.snapshot import Snapshot
from icectl.model.transaction_log import TransactionLog
from icectl.repository.backups import describe_backups
from icectl.repository.clock import read_write_time
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.layout import CONFIG_PATH, STANDARD
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.ref_files import branch_file
from icectl.storage.contract import Storage

SNAPSHOT_PATH = STANDARD.snapshot(INITIAL_SNAPSHOT_ID)
TRANSACTION_LOG_PATH = f"{STANDARD.transactions}/{INITIAL_SNAPSHOT_ID}"
MESSAGE = "Repository initialized"
ROOT_METADATA = {"__icechunk": {"is_root": True}}
"""The official writer marks the first snapshot with it."""


def initialize_repository(
    storage: Storage,
    *,
    spec_version: int = 2,
    config: Mapping[str, object] | None = None,
    metadata: Mapping[str, object] | None = None,
) -> None:
    """Create a repository with an empty `main`; `RefusedError` if the location is not empty."""
    if spec_version not in (1, 2):
        raise UsageError(f"there is no spec version {spec_version}", hint="it is 1 or 2")
    if spec_version == 1 and metadata:
        raise UsageError(
            "repositories of spec version 1 have no metadata", hint="use spec version 2"
        )
    check_not_bucket_root(storage)
    _check_empty(storage)
    storage.ensure_conditional_creates()
    now = read_write_time(storage)
    if spec_version == 2:
        _initialize_v2(storage, now, config, metadata)
    else:
        _initialize_v1(storage, now, config)


def check_not_bucket_root(storage: Storage) -> None:
    if storage.is_bucket_root:
        raise UsageError(
            f"{storage.location} is the root of a bucket, where official clients create no "
            "repository",
            hint=Remedy("add-prefix", {"location": f"{storage.location}/repository"}),
        )


def check_apart(target: Storage, source: Storage) -> None:
    """`UsageError` if one of them is in the other, also by a link, a mount or `..` in a path."""
    there, here = target.location, source.location
    below, above = _is_within(there, here), _is_within(here, there)
    if not (below or above) or target.server != source.server:
        return
    if below and above:
        problem = f"the target {there} is the source itself"
    elif below:
        problem = f"the target {there} is inside of the source"
    else:
        problem = f"the source {here} is inside of the target"
    raise UsageError(problem, hint="choose a target beside the source")


def _is_within(inner: str, outer: str) -> bool:
    if "://" in inner or "://" in outer:
        return f"{inner.rstrip('/')}/".startswith(f"{outer.rstrip('/')}/")
    path = Path(os.path.realpath(inner))
    return any(_is_same_directory(one, outer) for one in (path, *path.parents))


def _is_same_directory(one: Path, other: str) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # missing, or unreadable
        return one == Path(os.path.realpath(other))


def _initialize_v2(
    storage: Storage,
    now: int,
    config: Mapping[str, object] | None,
    metadata: Mapping[str, object] | None,
) -> None:
    encoded_metadata = encode_metadata(metadata or {}, 2)
    encoded_config = encode_flexbuffers(config) if config else None
    snapshot = _put_snapshot(storage, 2, now)
    log = TransactionLog(2, INITIAL_SNAPSHOT_ID, (), (), (), (), (), (), (), moved_nodes=())
    _put_unless_there(storage, TRANSACTION_LOG_PATH, encode_transaction_log(log))
    now = max(now, snapshot.flushed_at)
    info = RepoInfo(
        spec_version=2,
        tags=(),
        branches=(Ref(DEFAULT_BRANCH, snapshot.id),),
        deleted_tags=(),
        snapshots=(
            SnapshotInfo(
                snapshot.id, None, snapshot.flushed_at, snapshot.message, snapshot.metadata
            ),
        ),
        status=RepoStatus(Availability.ONLINE, now),
        metadata=encoded_metadata,
        latest_updates=(Update(RepoInitializedUpdate(), now),),
        config=encoded_config,
    )
    _put_last(storage, REPO_PATH, encode_repo(info))


def _initialize_v1(storage: Storage, now: int, config: Mapping[str, object] | None) -> None:
    encoded_config = encode_config_yaml(config) if config else None
    _put_snapshot(storage, 1, now)
    _put_last(storage, branch_file(DEFAULT_BRANCH), encode_ref(INITIAL_SNAPSHOT_ID))
    if encoded_config is not None:
        _put_unless_there(storage, CONFIG_PATH, encoded_config)


def _put_snapshot(storage: Storage, spec_version: int, now: int) -> Snapshot:
    """The initial snapshot: ours, or the one that another attempt has put there."""
    snapshot = Snapshot(
        spec_version=spec_version,
        id=INITIAL_SNAPSHOT_ID,
        parent_id=None,
        nodes=(),
        flushed_at=now,
        message=MESSAGE,
        metadata=encode_metadata(ROOT_METADATA, spec_version),
        manifest_files=(),
        manifest_files_v2=() if spec_version == 2 else None,
    )
    if _put_unless_there(storage, SNAPSHOT_PATH, encode_snapshot(snapshot)):
        return snapshot
    try:
        found = decode_snapshot(storage.read(SNAPSHOT_PATH))
    except FormatError as error:
        raise error.at(SNAPSHOT_PATH) from None
    if found.spec_version != spec_version:
        raise RefusedError(
            f"{storage.location} has the initial snapshot of spec version {found.spec_version}",
            # It may be the repository that somebody else is making at this moment.
            hint=Remedy(
                "finish-init",
                {"location": storage.location, "spec_version": str(found.spec_version)},
            ),
        )
    return found


def _put_unless_there(storage: Storage, path: str, data: bytes) -> bool:
    try:
        storage.put_if_absent(path, data)
    except PreconditionFailedError:
        return False
    return True


def _put_last(storage: Storage, path: str, data: bytes) -> None:
    if not _put_unless_there(storage, path, data):
        raise RefusedError(
            f"{storage.location} was made a repository by somebody else just now",
            hint="open it; nothing of it was changed",
        )


def _check_empty(storage: Storage) -> None:
    left_by_killed = {SNAPSHOT_PATH, TRANSACTION_LOG_PATH}
    for info in storage.list("", with_info=False):
        if info.path in left_by_killed:
            continue
        if info.path == REPO_PATH or info.path.startswith(f"{STANDARD.refs}/"):
            raise RefusedError(f"{storage.location} is already a repository")
        raise RefusedError(
            f"{storage.location} is not empty: it has {info.path}",
            hint=describe_backups(storage) or "choose an empty or new location",
        )
