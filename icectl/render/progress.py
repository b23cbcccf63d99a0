"""How far long work has come: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self, TextIO

from icectl.render.text import escape_controls
from icectl.render.times import format_duration

SECONDS_BETWEEN_LINES = 30.0
SECONDS_BETWEEN_FRAMES = 0.1
BAR_WIDTH = 24


class Progress:
    """`with context.progress("reading manifests", total) as progress: progress.advance()`.

    Work that is done before the first frame or line is due prints nothing at all.
    """

    def __init__(
        self,
        label: str,
        total: int | None,
        *,
        unit: str = "",
        stream: TextIO | None,
        terminal: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label = escape_controls(label)
        self._total = total
        self._unit = f" {unit}" if unit else ""
        self._stream = stream
        self._terminal = terminal
        self._clock = clock
        self._interval = SECONDS_BETWEEN_FRAMES if terminal else SECONDS_BETWEEN_LINES
        self._started = self._shown = clock()
        self._drawn = False
        self.count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._stream is not None and self._terminal and self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def advance(self, count: int = 1) -> None:
        """Count done work; safe to call often, from one thread."""
        self.count += count
        if self._stream is None:
            return
        now = self._clock()
        if now - self._shown >= self._interval:
            self._shown = now
            self._draw(self._stream, now - self._started)

    def _draw(self, stream: TextIO, elapsed: float) -> None:
        self._drawn = True
        done = f"{self.count:,}" if self._total is None else f"{self.count:,}/{self._total:,}"
        status = f"{done}{self._unit}, {format_duration(elapsed)}"
        if not self._terminal:
            stream.write(f"icectl: {self._label}: {status}\n")
        elif self._total:
            filled = min(self.count, self._total) * BAR_WIDTH // self._total
            bar = "#" * filled + "." * (BAR_WIDTH - filled)
            stream.write(f"\r\x1b[K{self._label} [{bar}] {status}")
        else:
            stream.write(f"\r\x1b[K{self._label} {status}")
        stream.flush()
