"""Progress of long operations: bars on a terminal, a line every 30 seconds in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from icectl.render.text import escape_controls
from icectl.render.words import format_duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

SECONDS_BEFORE_BARS = 1.0
SECONDS_BETWEEN_LINES = 30.0


class Phase:
    """One phase of an operation, with a count of finished items."""

    def __init__(self, show: Callable[[Phase, int], None]) -> None:
        self._show = show
        self.count = 0

    def advance(self, count: int = 1) -> None:
        """Count finished items; fast enough to call for each item."""
        self.count += count
        self._show(self, count)


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

    @contextmanager
    def phase(self, label: str, total: int | None = None, unit: str = "") -> Iterator[Phase]:
        """`with display.phase("reading manifests", 10) as phase: phase.advance()`."""
        label = escape_controls(label)
        if self.console is None:
            yield Phase(self._log_sometimes(label, total, unit))
            return
        with self._lock:
            self._open += 1
            if self._bars is None:
                self._bars = _make_bars(self.console)
                self._timer = threading.Timer(SECONDS_BEFORE_BARS, self._bars.start)
                self._timer.daemon = True
                self._timer.start()
            bars = self._bars
            task = bars.add_task(label, total=total, unit=unit)
        try:
            yield Phase(lambda _phase, count: bars.advance(task, count))
        finally:
            with self._lock:
                self._open -= 1
                bars.remove_task(task)
                if self._open == 0:
                    assert self._timer is not None
                    self._timer.cancel()
                    bars.stop()
                    self._bars = None

    def _log_sometimes(
        self, label: str, total: int | None, unit: str
    ) -> Callable[[Phase, int], None]:
        started = shown = self.clock()

        def show(phase: Phase, _count: int) -> None:
            nonlocal shown
            now = self.clock()
            if self.log is not None and now - shown >= SECONDS_BETWEEN_LINES:
                shown = now
                done = f"{phase.count:,}" if total is None else f"{phase.count:,}/{total:,}"
                done += f" {unit}" if unit else ""
                self.log(f"{label}: {done}, {format_duration(now - started)}")

        return show


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
            if task.total is None and not task.completed:
                return Text("")  # nothing is counted
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
