"""Progress reporting and deadlines for long operations."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

from icectl.errors import IcectlError, Remedy

logger = logging.getLogger(__name__)
T = TypeVar("T")


class Counter(Protocol):
    def advance(self, count: int = 1) -> None: ...

    def expect(self, total: int) -> None:
        """Set the number of items, which was unknown at the start."""


StartCounter = Callable[[str, int | None, str], AbstractContextManager[Counter]]


class OutOfTimeError(IcectlError):
    """The time that `--max-runtime` allows is over; what was done is consistent."""

    kind = "out_of_time"
    exit_code = 3


class _Silence:
    def advance(self, count: int = 1) -> None:
        pass

    def expect(self, total: int) -> None:
        pass


class _LoggedPhase(AbstractContextManager[Counter]):
    """Counts what another counter shows, and logs it when the phase is over."""

    def __init__(self, label: str, unit: str, shown: AbstractContextManager[Counter]) -> None:
        self._label = label
        self._unit = f" {unit}" if unit else ""
        self._shown = shown
        self._count = 0
        self._began = time.monotonic()

    def __enter__(self) -> Counter:
        self._counter = self._shown.__enter__()
        return self

    def advance(self, count: int = 1) -> None:
        self._count += count
        self._counter.advance(count)

    def expect(self, total: int) -> None:
        self._counter.expect(total)

    def __exit__(self, *failure: Any) -> None:
        self._shown.__exit__(*failure)
        seconds = time.monotonic() - self._began
        done = f"{self._count:,}{self._unit} in " if self._count or self._unit else ""
        # A consumer that needs no more items closes the generator.
        is_failure = failure[0] not in (None, GeneratorExit)
        ending = ", then failed" if is_failure else ""
        logger.info("%s: %s%.2f s%s", self._label, done, seconds, ending)


class Progress:
    """Passed down to every loop: `phase` for progress, `check_time` between items."""

    def __init__(
        self, start_counter: StartCounter | None = None, deadline: float | None = None
    ) -> None:
        self._start_counter = start_counter
        self._deadline = deadline

    def phase(
        self, label: str, total: int | None = None, unit: str = ""
    ) -> AbstractContextManager[Counter]:
        shown: AbstractContextManager[Counter] = nullcontext(_Silence())
        if self._start_counter is not None:
            shown = self._start_counter(label, total, unit)
        if not logger.isEnabledFor(logging.INFO):
            return shown
        return _LoggedPhase(label, unit, shown)

    def count(
        self, items: Iterable[T], label: str, total: int | None = None, unit: str = ""
    ) -> Iterator[T]:
        """The items; the phase lasts until the last of them was processed."""
        with self.phase(label, total, unit) as counter:
            for item in items:
                yield item
                counter.advance()

    def silent(self) -> Progress:
        """The same end for work on another thread, whose progress somebody else shows."""
        return Progress(None, self._deadline)

    @property
    def seconds_left(self) -> float | None:
        return None if self._deadline is None else self._deadline - time.monotonic()

    @property
    def is_over(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def stop(self) -> None:
        """Let the work end where it looks at the time next."""
        self._deadline = -math.inf

    def check_time(self) -> None:
        if self.is_over:
            raise OutOfTimeError(
                "the time limit expired before anything was deleted",
                hint=Remedy("allow-more-time"),
            )
