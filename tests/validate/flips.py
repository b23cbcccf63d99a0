"""Flips bytes of metadata files, and judges whether validate noticed or nothing changed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from icectl.checks.rules import Level
from icectl.errors import IcectlError
from icectl.format.manifest import decode_manifest
from icectl.format.repo import decode_repo
from icectl.format.snapshot import decode_snapshot
from icectl.format.transaction_log import decode_transaction_log
from icectl.model.manifest import ChunkRefs, RefKind, Spans
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.storage.local import LocalStorage
from icectl.storage.open import open_storage
from tests.official import open_official, read_everything

DECODERS: dict[str, Callable[[bytes], Any]] = {
    "repo": decode_repo,
    "snapshots": decode_snapshot,
    "manifests": decode_manifest,
    "transactions": decode_transaction_log,
}

UNUSED = ".compression_algorithm"
"""Of a manifest: both of its values are valid, and without compressed locations nothing uses it."""
OPTIONS = ValidateOptions(
    level=Level.CHUNKS,
    open_source=open_storage,
    allowed_sources=("file:///",),  # others on local disk are not contacted
)


@dataclass(frozen=True)
class Missed:
    path: str
    byte: int
    differences: list[str]


def content(value: Any) -> Any:
    """All that a decoded file says, as plain comparable values; references by their kind."""
    if isinstance(value, ChunkRefs):
        columns = {field.name: content(getattr(value, field.name)) for field in fields(value)}
        return [
            {RefKind(kind).name: {name: column and column[row] for name, column in columns.items()}}
            for row, kind in enumerate(columns["kind"])
        ]
    if isinstance(value, Spans):
        return value.to_list()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if is_dataclass(value):
        return {field.name: content(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [content(item) for item in value]
    return value


def differences(before: Any, after: Any, where: str = "") -> list[str]:
    """The places where two contents differ."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return [
            found
            for name in before
            for found in differences(before[name], after[name], f"{where}.{name}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            found
            for old, new in zip(before, after, strict=True)
            for found in differences(old, new, f"{where}[]")
        ]
    return [] if before == after else [where]


def metadata_files(repository: Path) -> list[Path]:
    return [
        repository / "repo",
        *(path for name in list(DECODERS)[1:] for path in sorted((repository / name).iterdir())),
    ]


def flip_and_judge(repository: Path, chance: random.Random) -> Missed | bool:
    """True: found; False: without effect; else what was changed and not noticed."""
    path = chance.choice(metadata_files(repository))
    whole = path.read_bytes()
    damaged = bytearray(whole)
    byte = chance.randrange(len(whole))
    damaged[byte] ^= chance.randrange(1, 256)
    path.write_bytes(damaged)
    try:
        result, _ = validate(LocalStorage(repository), OPTIONS)
        if result.findings:
            return True
        decode = DECODERS[path.relative_to(repository).parts[0]]
        try:
            after = decode(bytes(damaged))
        except IcectlError as error:
            return Missed(str(path.relative_to(repository)), byte, [repr(error)])
        found = differences(content(decode(whole)), content(after))
        if found == [UNUSED]:
            read = read_everything(open_official(repository))
            path.write_bytes(whole)
            if read == read_everything(open_official(repository)):
                return False
        return Missed(str(path.relative_to(repository)), byte, found) if found else False
    finally:
        path.write_bytes(whole)
