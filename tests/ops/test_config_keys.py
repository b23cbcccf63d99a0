"""Which values may be stored: what we allow, the official package opens; the rest it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from icectl.errors import UsageError
from icectl.ops.config_keys import KEYS, Boolean, Integer, Text, check_config, check_value, set_key
from icectl.repository.initialize import initialize_repository
from icectl.storage.local import LocalStorage
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


@pytest.mark.parametrize("key", KEYS)
def test_what_lies_outside_is_refused_by_both(tmp_path: Path, key: str) -> None:
    kind = KEYS[key]
    outside: list[object] = [1.5, [1]]
    if isinstance(kind, Integer):
        outside += [kind.largest + 1, "x", True]
        if key != "num_updates_per_repo_info_file":  # where 0 is useless rather than unreadable
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
    with pytest.raises(UsageError, match="no configuration key"):
        check_config({"manifest": {"nonsense": 1}})
