"""Progress of long operations: bars on a terminal, a line every 30 seconds in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from icectl.render.text import escape_controls
from icectl.render.words import format_duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

SECONDS_BEFORE_BARS = 1.0
SECONDS_BETWEEN_LINES = 30.0


class ProgressDisplay:
    """Shows the running phases.

    With a console, it draws bars after one second; with `log`, it writes a line from time to time;
    with neither, it shows nothing.
    """

    def __init__(
        self,
        console: Console | None = None,
        log: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console = console
        self.log = log
        self.clock = clock
        self._lock = threading.Lock()
        self._open = 0
        self._timer: threading.Timer | None = None
        self._bars: Progress | None = None

    def phase(self, label: str, total: int | None = None, unit: str = "") -> Phase:
        """`with display.phase("reading manifests", 10) as phase: phase.advance()`."""
        return Phase(self, escape_controls(label), total, unit)

    def begin(self, phase: Phase) -> None:
        if self.console is None:
            return
        with self._lock:
            self._open += 1
            if self._bars is None:
                self._bars = _make_bars(self.console)
                self._timer = threading.Timer(SECONDS_BEFORE_BARS, self._bars.start)
                self._timer.daemon = True
                self._timer.start()
            phase.task = self._bars.add_task(phase.label, total=phase.total, unit=phase.unit)

    def end(self, phase: Phase) -> None:
        if self.console is None or self._bars is None:
            return
        with self._lock:
            self._open -= 1
            if phase.task is not None:
                self._bars.remove_task(phase.task)
            if self._open == 0:
                assert self._timer is not None
                self._timer.cancel()
                self._bars.stop()
                self._bars = None

    def advance(self, phase: Phase, count: int) -> None:
        if self._bars is not None and phase.task is not None:
            self._bars.advance(phase.task, count)
        elif self.log is not None:
            now = self.clock()
            if now - phase.shown >= SECONDS_BETWEEN_LINES:
                phase.shown = now
                self.log(phase.describe(now))


class Phase:
    """One phase of an operation, with a count of finished items."""

    def __init__(self, display: ProgressDisplay, label: str, total: int | None, unit: str) -> None:
        self._display = display
        self.label = label
        self.total = total
        self.unit = unit
        self.count = 0
        self.started = self.shown = display.clock()
        self.task: TaskID | None = None

    def __enter__(self) -> Self:
        self._display.begin(self)
        return self

    def __exit__(self, *failure: object) -> None:
        self._display.end(self)

    def advance(self, count: int = 1) -> None:
        """Count finished items; fast enough to call for each item."""
        self.count += count
        self._display.advance(self, count)

    def describe(self, now: float) -> str:
        done = f"{self.count:,}" if self.total is None else f"{self.count:,}/{self.total:,}"
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.label}: {done}{unit}, {format_duration(now - self.started)}"


def _make_bars(console: Console) -> Progress:
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Counts(ProgressColumn):
        def render(self, task: Task) -> Text:
            of = "" if task.total is None else f"/{int(task.total):,}"
            rate = f", {task.speed:,.0f}/s" if task.speed else ""
            unit = f" {task.fields['unit']}" if task.fields["unit"] else ""
            return Text(f"{int(task.completed):,}{of}{unit}{rate}")

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        Counts(),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
    )
