"""The list of objects whose loss is known and understood.

Either a path on each line, or JSON Lines with the path as `object`, as `validate` writes its
findings. Only lost chunks, transaction logs and backups can be excused: without a manifest or
a snapshot nobody knows what else is needed.
"""

from __future__ import annotations

import json
from pathlib import Path

from icectl.errors import UsageError
from icectl.ops.gc.id_sets import decode_names
from icectl.ops.gc.objects import ObjectKind
from icectl.repository.ops_log import BACKUPS

LONGEST_SHOWN = 100
NAMED_BY_IDS = (ObjectKind.CHUNK.directory, ObjectKind.TRANSACTION_LOG.directory)


def read_known_missing(path: Path) -> frozenset[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file") from None
    found: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        name = _object(line.strip())
        if name is None:
            continue
        if not _is_excusable(name):
            raise UsageError(
                f"{path}, line {number}: {_short(name)!r} is not the path of a chunk, a "
                "transaction log or a backup",
                hint="chunks/ID, transactions/ID or overwritten/NAME; what else is lost makes "
                "a collection unsafe",
            )
        found.add(name)
    return frozenset(found)


def _is_excusable(path: str) -> bool:
    directory, _, name = path.partition("/")
    if directory in NAMED_BY_IDS:
        return bool(decode_names([name])[1].all())
    return directory == BACKUPS and bool(name)


def _object(line: str) -> str | None:
    if not line or line.startswith("#"):
        return None
    if not line.startswith("{"):
        return line
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if document.get("severity") == "info":
        return None  # such as garbage, which is there
    name = document.get("object")
    return name if isinstance(name, str) else line


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"
