"""Files that only the user may read: plans and reports contain names from the repository."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any


def open_private(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Open for writing; a new file has the mode 0600, an existing one keeps its mode."""
    # Path.open takes no opener.
    return open(path, mode, opener=_create_private, **options)


def _create_private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
