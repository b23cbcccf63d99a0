"""Progress of long operations: bars on a terminal, a line every 30 seconds in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from icectl.render.text import escape_controls, format_duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, Task, TaskID

SECONDS_BEFORE_BARS = 1.0
SECONDS_BETWEEN_LINES = 30.0
NARROW = 80


@dataclass(slots=True, eq=False)
class Phase:
    """One phase of an operation, with a count of finished items."""

    label: str
    total: int | None
    unit: str
    display: ProgressDisplay
    started: float
    shown: float
    """When the last line was logged."""
    count: int = 0
    task: TaskID | None = None

    def advance(self, count: int = 1) -> None:
        """Count finished items; fast enough to call for each item."""
        self.count += count
        self.display.show_count(self)

    def expect(self, total: int) -> None:
        """Set the number of items, which was unknown at the start."""
        self.total = total
        self.display.show_count(self)


class ProgressDisplay:
    """Shows the running phases, and that the command is working if there are none.

    With a console, it draws bars after one second, until `hide`; with `log`, it writes a line from
    time to time; with neither, it shows nothing.
    """

    def __init__(
        self,
        make_console: Callable[[], Console] | None = None,
        log: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make_console = make_console
        self._log = log
        self._clock = clock
        self._lock = threading.RLock()
        self._phases: list[Phase] = []
        now = clock()
        self._waiting = Phase("working", None, "", self, now, now)
        self._timer: threading.Timer | None = None
        self._bars: Progress | None = None

    def __enter__(self) -> Self:
        self.show_later()
        return self

    def __exit__(self, *failure: object) -> None:
        self.hide()

    @contextmanager
    def phase(self, label: str, total: int | None = None, unit: str = "") -> Iterator[Phase]:
        """`with display.phase("reading manifests", 10) as phase: phase.advance()`."""
        now = self._clock()
        phase = Phase(escape_controls(label), total, unit, self, now, now)
        with self._lock:
            self._phases.append(phase)
            self._draw()
            self.show_later()
        try:
            yield phase
        finally:
            with self._lock:
                self._phases.remove(phase)
                self._draw()

    def show_later(self) -> None:
        """Draw bars after a second, unless they are drawn or `hide` is called before."""
        with self._lock:
            if self._make_console is not None and self._timer is None:
                self._timer = threading.Timer(SECONDS_BEFORE_BARS, self._show)
                self._timer.daemon = True
                self._timer.start()

    def hide(self) -> None:
        """Clear the bars, because the terminal is needed for other output."""
        with self._lock:
            bars, self._bars = self._bars, None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if bars is not None:
                bars.stop()

    def print_above(self, line: str) -> bool:
        """Print the line above the bars; return False if none are drawn."""
        bars = self._bars
        if bars is not None:
            bars.console.print(line, soft_wrap=True)
        return bars is not None

    def show_count(self, phase: Phase) -> None:
        bars = self._bars
        if bars is not None and phase.task is not None:
            bars.update(phase.task, completed=phase.count, total=phase.total)
        elif self._log is not None:
            now = self._clock()
            if now - phase.shown >= SECONDS_BETWEEN_LINES:
                phase.shown = now
                took = format_duration(now - phase.started)
                self._log(f"{phase.label}: {_describe_count(phase)}, {took}")

    def _show(self) -> None:
        with self._lock:
            if self._timer is threading.current_thread() and self._make_console is not None:
                self._bars = _make_bars(self._make_console())
                self._draw()
                self._bars.start()

    def _draw(self) -> None:
        """Let the bars be those of the running phases."""
        if self._bars is None:
            return
        phases = self._phases or [self._waiting]
        drawn = {task.fields["phase"]: task.id for task in self._bars.tasks}
        for phase in phases:
            if phase not in drawn:
                phase.task = self._bars.add_task(
                    phase.label, total=phase.total, completed=phase.count, phase=phase
                )
        for phase, task in drawn.items():
            if phase not in phases:
                self._bars.remove_task(task)


def _describe_count(phase: Phase) -> str:
    of = "" if phase.total is None else f"/{phase.total:,}"
    return f"{phase.count:,}{of} {phase.unit}".rstrip()


def _make_bars(console: Console) -> Progress:
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
    from rich.text import Text

    class Counts(ProgressColumn):
        """How many of how many, how fast, and the time that is left or has passed."""

        def render(self, task: Task) -> Text:
            phase: Phase = task.fields["phase"]
            parts = [_describe_count(phase)] if phase.count or phase.total is not None else []
            if task.speed:
                parts.append(f"{task.speed:,.0f}/s" if task.speed >= 1 else f"{task.speed:.1g}/s")
            if task.time_remaining:
                parts.append(f"{timedelta(seconds=int(task.time_remaining))} left")
            else:
                parts.append(str(timedelta(seconds=int(time.monotonic() - phase.started))))
            return Text(", ".join(parts))

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=8 if console.width < NARROW else 24),
        Counts(),
        console=console,
        transient=True,
    )
