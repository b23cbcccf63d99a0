"""Ways to lose the `repo` file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

LOSSES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda repo: repo.write_bytes(b""),
    "truncated": lambda repo: repo.write_bytes(repo.read_bytes()[:-20]),
    "foreign": lambda repo: repo.write_bytes(b"something else"),
}
