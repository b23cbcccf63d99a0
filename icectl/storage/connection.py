"""The client of a cloud's library, which several storages may share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any


class Connection:
    """A file system of fsspec, made when it is first needed, and again after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: tuple[int, Any] | None = None

    def get(self, connect: Callable[[], Any]) -> Any:
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                self._made = (os.getpid(), connect())
            return self._made[1]
