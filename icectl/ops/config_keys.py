"""The keys of the stored configuration and their valid values.

Every client reads the configuration when it opens the repository, and refuses the repository if
one value has the wrong type. Therefore icectl only sets known keys, to values that the official
reader accepts; the integer widths are those of that reader.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from icectl.errors import Remedy, UsageError
from icectl.storage.contract import Storage
from icectl.storage.local import LocalStorage


@dataclass(frozen=True, slots=True)
class Integer:
    largest: int
    smallest: int = 0

    def accepts(self, value: object) -> bool:
        integer = isinstance(value, int) and not isinstance(value, bool)
        return integer and self.smallest <= value <= self.largest  # type: ignore[operator]

    def __str__(self) -> str:
        return f"an integer from {self.smallest} to {self.largest}"


@dataclass(frozen=True, slots=True)
class Boolean:
    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True, slots=True)
class Text:
    choices: tuple[str, ...] = ()

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and (not self.choices or value in self.choices)

    def __str__(self) -> str:
        return " or ".join(self.choices) or "a text"


ValueType = Integer | Boolean | Text

_U8, _U16, _U32, _U64 = (Integer(2**bits - 1) for bits in (8, 16, 32, 64))
_POSITIVE_U16, _POSITIVE_U64 = Integer(2**16 - 1, 1), Integer(2**64 - 1, 1)


def _retries(prefix: str) -> dict[str, ValueType]:
    return {
        f"{prefix}.max_tries": _POSITIVE_U16,
        f"{prefix}.initial_backoff_ms": _U32,
        f"{prefix}.max_backoff_ms": _U32,
    }


KEYS: Mapping[str, ValueType] = {
    "inline_chunk_threshold_bytes": _U16,
    "get_partial_values_concurrency": _U16,
    # With a concurrency of zero, the official client waits forever.
    "max_concurrent_requests": _POSITIVE_U16,
    "max_concurrent_decodes": _POSITIVE_U16,
    "num_updates_per_repo_info_file": _POSITIVE_U16,
    "compression.algorithm": Text(("zstd",)),
    "compression.level": _U8,
    "caching.num_snapshot_nodes": _U64,
    "caching.num_chunk_refs": _U64,
    "caching.num_transaction_changes": _U64,
    "caching.num_bytes_attributes": _U64,
    "caching.num_bytes_chunks": _U64,
    "storage.concurrency.max_concurrent_requests_for_object": _POSITIVE_U16,
    "storage.concurrency.ideal_concurrent_request_size": _POSITIVE_U64,
    **_retries("storage.retries"),
    "storage.timeouts.connect_timeout_ms": _U32,
    "storage.timeouts.read_timeout_ms": _U32,
    "storage.timeouts.operation_timeout_ms": _U32,
    "storage.timeouts.operation_attempt_timeout_ms": _U32,
    "storage.unsafe_use_conditional_create": Boolean(),
    "storage.unsafe_use_conditional_update": Boolean(),
    "storage.unsafe_use_metadata": Boolean(),
    "storage.storage_class": Text(),
    "storage.metadata_storage_class": Text(),
    "storage.chunks_storage_class": Text(),
    "storage.minimum_size_for_multipart_upload": _U64,
    "manifest.preload.max_total_refs": _U32,
    "manifest.preload.max_arrays_to_scan": _U32,
    "manifest.max_concurrent_manifest_fetches_during_commit": _U16,
    "manifest.virtual_chunk_location_compression.min_num_chunks": _U16,
    "manifest.virtual_chunk_location_compression.dictionary_max_training_samples": _U16,
    "manifest.virtual_chunk_location_compression.dictionary_max_size_bytes": _U32,
    "manifest.virtual_chunk_location_compression.compression_level": Integer(2**31 - 1, -(2**31)),
    **_retries("repo_update_retries.default"),
}

STRUCTURES = (
    "virtual_chunk_containers",
    "manifest.preload.preload_if",
    "manifest.splitting",
    "previous_file",
)
"""Structures rather than plain values: kept unchanged, and never set key by key."""


NOT_ON_LOCAL_DISK = ("storage.unsafe_use_conditional_update", "storage.unsafe_use_metadata")
"""Every commit of the official client fails on local disk where one of them is true."""


CONDITIONS = (
    "storage.unsafe_use_conditional_create",
    "storage.unsafe_use_conditional_update",
    "storage.unsafe_use_metadata",
)
"""False in what the official client stores on local disk. On an object store, each turns off
what keeps official writers from overwriting each other there."""


def find_lost_conditions(config: Mapping[str, object], storage: Storage) -> list[str]:
    """The keys of a stored configuration that make official clients write unconditionally."""
    if not storage.is_object_store:
        return []
    return [key for key, value in _leaves(config, "") if key in CONDITIONS and value is False]


def check_value(key: str, value: object) -> None:
    """Raise `UsageError` unless the key is known and the official reader accepts the value.

    Null, the default of every key, is always valid.
    """
    kind = KEYS.get(key)
    if kind is None:
        raise _unknown(key)
    if value is not None and not kind.accepts(value):
        raise UsageError(
            f"{key} cannot be {value!r}", hint=f"expected {kind}, or null for the default"
        )


def check_config(config: Mapping[str, object]) -> None:
    """Check every key of a configuration; structures are not checked."""
    for key, value in _leaves(config, ""):
        if value is not None or key in KEYS:
            check_value(key, value)


def check_on_storage(config: Mapping[str, object], storage: Storage) -> None:
    """Raise `UsageError` for values that the official client accepts but cannot write with."""
    if not isinstance(storage, LocalStorage):
        return
    for key, value in _leaves(config, ""):
        if key in NOT_ON_LOCAL_DISK and value is True:
            raise UsageError(
                f"{key} cannot be true on local disk: official clients could not commit",
                hint="leave it at null; it is for object stores",
            )


def set_key(config: Mapping[str, object], key: str, value: object) -> dict[str, object]:
    """Return the configuration with this value set; all other values are unchanged."""
    first, _, rest = key.partition(".")
    if rest:
        inner = config.get(first)
        value = set_key(inner if isinstance(inner, Mapping) else {}, rest, value)
    return {**config, first: value}


def _leaves(config: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in config.items():
        key = f"{prefix}{name}"
        if key in STRUCTURES:
            continue
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value


def _unknown(key: str) -> UsageError:
    if key.startswith(STRUCTURES):
        return UsageError(
            f"{key} is a structure and cannot be set to a single value",
            hint=Remedy("configure-new-repository"),
        )
    below = [known for known in KEYS if known.startswith(f"{key}.")]
    near = below[:3] or difflib.get_close_matches(key, KEYS, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the keys are: {', '.join(KEYS)}"
    return UsageError(f"there is no configuration key {key}", hint=hint)
