"""Which values may be stored: what we allow, the official package opens; the rest it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from icectl.errors import UsageError
from icectl.ops.config_keys import (
    KEYS,
    NOT_ON_LOCAL_DISK,
    Boolean,
    Integer,
    Text,
    check_config,
    check_on_storage,
    check_value,
    set_key,
)
from icectl.ops.settings import create_repository, set_config_value
from icectl.repository.initialize import initialize_repository
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from icectl.storage.memory import MemoryStorage
from tests.official import ic


def official_opens(directory: Path, spec_version: int, config: dict[str, object]) -> bool:
    initialize_repository(LocalStorage(str(directory)), spec_version=spec_version, config=config)
    try:
        ic.Repository.open(ic.local_filesystem_storage(str(directory)))
    except ic.IcechunkError:
        return False
    return True


def extremes(kind: Integer | Boolean | Text) -> list[object]:
    if isinstance(kind, Integer):
        return [kind.smallest, kind.largest, None]
    if isinstance(kind, Boolean):
        return [True, False, None]
    return [*(kind.choices or ("STANDARD",)), None]


@pytest.mark.parametrize("spec_version", [1, 2])
def test_every_allowed_extreme_is_accepted(tmp_path: Path, spec_version: int) -> None:
    """All keys at once: the smallest of each, then the largest, then null."""
    for number in range(3):
        config: dict[str, object] = {}
        for key, kind in KEYS.items():
            values = extremes(kind)
            value = values[min(number, len(values) - 1)]
            check_value(key, value)
            config = set_key(config, key, value)
        check_config(config)
        assert official_opens(tmp_path / str(number), spec_version, config)


USELESS_AT_ZERO = (
    "num_updates_per_repo_info_file",
    "max_concurrent_requests",
    "max_concurrent_decodes",
)
"""The official package opens the repository and cannot work in it: it waits for ever."""


@pytest.mark.parametrize("key", USELESS_AT_ZERO)
def test_zero_is_refused_where_the_official_package_would_wait(key: str) -> None:
    with pytest.raises(UsageError):
        check_value(key, 0)
    check_value(key, 1)


@pytest.mark.parametrize("key", NOT_ON_LOCAL_DISK)
def test_what_the_official_package_cannot_commit_with_on_local_disk(
    tmp_path: Path, key: str
) -> None:
    storage = LocalStorage(str(tmp_path / "theirs"))
    initialize_repository(storage, config=set_key({}, key, True))
    session = ic.Repository.open(
        ic.local_filesystem_storage(str(tmp_path / "theirs"))
    ).writable_session("main")
    with pytest.raises(ic.IcechunkError):
        session.commit("x", allow_empty=True)

    initialize_repository(LocalStorage(str(tmp_path / "ours")))
    repository = open_repository(LocalStorage(str(tmp_path / "ours")))
    with pytest.raises(UsageError):
        set_config_value(repository, key, True)
    assert set_config_value(repository, key, False).value is False
    with pytest.raises(UsageError):
        create_repository(
            LocalStorage(str(tmp_path / "new")),
            spec_version=2,
            config=set_key({}, key, True),
            metadata={},
        )
    check_on_storage(set_key({}, key, True), MemoryStorage("anywhere"))


@pytest.mark.parametrize("key", KEYS)
def test_what_lies_outside_is_refused_by_both(tmp_path: Path, key: str) -> None:
    kind = KEYS[key]
    outside: list[object] = [1.5, [1]]
    if isinstance(kind, Integer):
        outside += [kind.largest + 1, "x", True]
        if key not in USELESS_AT_ZERO:
            outside.append(kind.smallest - 1)
    for number, value in enumerate(outside):
        with pytest.raises(UsageError):
            check_value(key, value)
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            continue  # no encoder takes it
        assert not official_opens(tmp_path / str(number), 2, set_key({}, key, value))


def test_a_key_is_set_beside_the_others() -> None:
    config: dict[str, object] = {"storage": {"retries": {"max_tries": 3}, "timeouts": None}}
    config = set_key(config, "storage.timeouts.read_timeout_ms", 5)
    assert config == {"storage": {"retries": {"max_tries": 3}, "timeouts": {"read_timeout_ms": 5}}}


def test_structures_are_taken_as_they_are() -> None:
    check_config({"manifest": {"splitting": {"split_sizes": []}, "preload": None}})
    with pytest.raises(UsageError, match=r"manifest\.nonsense"):
        check_config({"manifest": {"nonsense": 1}})
