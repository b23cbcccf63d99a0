"""Create a repository; its status, configuration, metadata and feature flags."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from icectl.errors import FormatError, RefNotFoundError, Remedy, UnsupportedError, UsageError
from icectl.format.values import decode_metadata
from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.model.repo import FEATURE_FLAGS, Availability, RepoStatus
from icectl.ops.config_keys import KEYS, check_on_storage, check_value, set_key
from icectl.repository import settings
from icectl.repository.config import read_config
from icectl.repository.config_changes import update_config
from icectl.repository.edits import flag_enabled
from icectl.repository.initialize import initialize_repository
from icectl.repository.names import nearest_hint
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.repository import Repository
from icectl.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class NewRepository:
    location: str
    spec_version: int
    snapshot_id: SnapshotId


@dataclass(frozen=True, slots=True)
class StatusReport:
    availability: Availability | int
    """A number where a newer writer knows more of them."""
    set_at: int | None
    """None before spec version 2, which has no status: such a repository is always online."""
    reason: str | None
    location: str
    generation: str
    spec_version: int


@dataclass(frozen=True, slots=True)
class NamedValue:
    key: str
    value: object


@dataclass(frozen=True, slots=True)
class FeatureFlag:
    id: int
    name: str | None
    """None for a flag that this icectl does not know."""
    enabled: bool
    setting: bool | None
    """What the repository says; None leaves the flag at its default."""


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


def read_status(repository: Repository) -> StatusReport:
    info = repository.info
    return _report(repository, None if info is None else info.status)


def set_status(
    repository: Repository,
    availability: Availability,
    reason: str | None,
    *,
    accept_older_repo: bool = False,
) -> StatusReport:
    if availability is Availability.ONLINE and reason is not None:
        raise UsageError("a repository that is online has no reason for limited availability")
    status = settings.set_status(
        repository, availability, reason, accept_older_repo=accept_older_repo
    )
    return _report(repository, status)


def read_config_value(repository: Repository, key: str) -> NamedValue:
    """The value of a dotted key; null if the repository does not set it."""
    config: object = read_config(repository)
    for name in key.split("."):
        if not isinstance(config, Mapping) or name not in config:
            if key in KEYS or any(known.startswith(f"{key}.") for known in KEYS):
                return NamedValue(key, None)
            hint = nearest_hint(key, KEYS) or Remedy("show-config")
            raise RefNotFoundError(f"the configuration has no {key}", hint=hint)
        config = config[name]
    return NamedValue(key, config)


def set_config_value(repository: Repository, key: str, value: object) -> NamedValue:
    check_value(key, value)
    check_on_storage(set_key({}, key, value), repository.storage)
    update_config(repository, lambda config: set_key(config, key, value))
    return NamedValue(key, value)


def read_metadata(repository: Repository) -> dict[str, object]:
    """Empty before spec version 2, which introduced metadata."""
    if repository.info is None:
        return {}
    try:
        return decode_metadata(repository.info.metadata, 2)
    except FormatError as error:
        raise error.at(REPO_PATH) from None


def read_metadata_value(repository: Repository, key: str) -> NamedValue:
    metadata = read_metadata(repository)
    if key not in metadata:
        raise RefNotFoundError(
            f"the repository has no metadata named {key}", hint=nearest_hint(key, metadata)
        )
    return NamedValue(key, metadata[key])


def set_metadata(repository: Repository, values: Mapping[str, object]) -> Mapping[str, object]:
    settings.set_metadata(repository, values)
    return values


def unset_metadata(repository: Repository, names: Collection[str]) -> None:
    settings.unset_metadata(repository, names)


def list_flags(repository: Repository) -> tuple[FeatureFlag, ...]:
    """All known flags, and unknown ones that the repository sets."""
    info = repository.info
    if info is None:
        raise UnsupportedError(
            f"repositories of the generation {repository.generation} have no feature flags"
        )
    enabled = set(info.enabled_feature_flags or ())
    disabled = set(info.disabled_feature_flags or ())
    return tuple(
        FeatureFlag(
            flag_id,
            FEATURE_FLAGS.get(flag_id),
            flag_enabled(info, flag_id),
            _setting(flag_id, enabled, disabled),
        )
        for flag_id in sorted({*FEATURE_FLAGS, *enabled, *disabled})
    )


def set_flag(repository: Repository, flag: str, value: bool | None) -> FeatureFlag:
    """Turn a flag, given by name or number, on or off; None restores its default."""
    flag_id = _flag_id(flag)
    settings.set_flag(repository, flag_id, value)
    return FeatureFlag(flag_id, FEATURE_FLAGS.get(flag_id), value is not False, value)


def _report(repository: Repository, status: RepoStatus | None) -> StatusReport:
    availability: Availability | int = Availability.ONLINE
    if status is not None:
        known = status.availability in set(Availability)
        availability = Availability(status.availability) if known else status.availability
    return StatusReport(
        availability,
        None if status is None else status.set_at,
        None if status is None else status.limited_availability_reason,
        repository.storage.location,
        str(repository.generation),
        repository.spec_version,
    )


def _setting(flag_id: int, enabled: set[int], disabled: set[int]) -> bool | None:
    return True if flag_id in enabled else False if flag_id in disabled else None


def _flag_id(flag: str) -> int:
    by_name = {name: flag_id for flag_id, name in FEATURE_FLAGS.items()}
    if flag in by_name:
        return by_name[flag]
    if flag.isascii() and flag.isdigit() and int(flag) in FEATURE_FLAGS:
        return int(flag)
    known = ", ".join(f"{name} ({flag_id})" for flag_id, name in FEATURE_FLAGS.items())
    raise UsageError(f"there is no feature flag {flag}", hint=f"the flags are: {known}")
