"""How long work tells how far it is, and when it has to end."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from icectl.errors import IcectlError


class Counter(Protocol):
    def advance(self, count: int = 1) -> None: ...


StartCounter = Callable[[str, int | None, str], AbstractContextManager[Counter]]


class OutOfTimeError(IcectlError):
    """The time that `--max-runtime` allows is over; what was done is consistent."""

    kind = "out_of_time"
    exit_code = 3


class _Silence:
    def advance(self, count: int = 1) -> None:
        pass


class Watch:
    """Passed down to every loop: `phase` for progress, `check_time` between items."""

    def __init__(
        self, start_counter: StartCounter | None = None, deadline: float | None = None
    ) -> None:
        self._start_counter = start_counter
        self._deadline = deadline

    def phase(
        self, label: str, total: int | None = None, unit: str = ""
    ) -> AbstractContextManager[Counter]:
        if self._start_counter is None:
            return nullcontext(_Silence())
        return self._start_counter(label, total, unit)

    def silent(self) -> Watch:
        """The same end for work on another thread, whose progress somebody else shows."""
        return Watch(None, self._deadline)

    @property
    def seconds_left(self) -> float | None:
        return None if self._deadline is None else self._deadline - time.monotonic()

    @property
    def is_over(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def check_time(self) -> None:
        if self.is_over:
            raise OutOfTimeError(
                "the time given by --max-runtime was over before anything was deleted",
                hint="planning begins anew with each run: give it more time than that takes",
            )
