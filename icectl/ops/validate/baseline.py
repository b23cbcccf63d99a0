"""The baseline: a file of known findings, in the JSON Lines that `validate --jsonl` prints."""

from __future__ import annotations

import json
from pathlib import Path

from icectl.errors import Remedy, UsageError

Key = tuple[str, str, str | None]
HINT = Remedy("write-baseline")


def read_baseline(path: Path) -> frozenset[Key]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=HINT) from error
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file", hint=HINT) from None
    found: set[Key] = set()
    for number, line in enumerate(lines, 1):
        if line.strip():
            found.add(_key(line, f"{path}, line {number}"))
    return frozenset(found)


def _key(line: str, where: str) -> Key:
    try:
        document = json.loads(line)
        code, name, path = document["code"], document["object"], document.get("path")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        code = name = path = None
    if not isinstance(code, str) or not isinstance(name, str) or not isinstance(path, str | None):
        raise UsageError(f"{where} is not a finding", hint=HINT)
    return code, name, path
