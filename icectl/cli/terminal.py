"""Output to stdout or a pager; notes and log records to stderr."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Self, TextIO, TypeVar

from icectl.errors import IcectlError
from icectl.model.redaction import hide_secrets
from icectl.render.blocks import plain_lines
from icectl.render.text import escape_commands, escape_controls

if TYPE_CHECKING:
    import subprocess

    from icectl.render.blocks import Block
    from icectl.render.progress import ProgressDisplay

LINES_PER_WRITE = 500
log_subject: ContextVar[str] = ContextVar("log_subject", default="")
"""What the log records of this thread are about, if a command works on several repositories."""
T = TypeVar("T")
_PASTED = re.compile(r"`[^`]*`|(?:(?<=: )|(?<=run )|(?<=with ))icectl .*")


def peek(items: Iterable[T]) -> Iterator[T] | None:
    """Read the first item, and return all of them, or None if there is none."""
    rest = iter(items)
    first = list(islice(rest, 1))
    return chain(first, rest) if first else None


def is_terminal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether the stream supports colour, progress bars and questions."""
    return stream.isatty() and environ.get("TERM") != "dumb"


def fit(line: str, stream: TextIO) -> str:
    """Wrap a line at words if the stream is a terminal, but never in a command to be pasted."""
    if not stream.isatty():
        return line
    import shutil
    import textwrap

    width = shutil.get_terminal_size().columns
    kept = _PASTED.sub(lambda command: command[0].replace(" ", "\0"), line)
    wrapped = textwrap.fill(
        kept, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return wrapped.replace("\0", " ")


class Output:
    """Writes blocks and lines to stdout: with rich on a terminal, as plain text elsewhere."""

    def __init__(
        self, environ: Mapping[str, str], begin: Callable[[], None], *, no_color: bool = False
    ) -> None:
        """`begin` is called when the first block or line is known, before it is written."""
        self._environ = environ
        self._begin = begin
        self._no_color = no_color
        self._pager: subprocess.Popen[str] | None = None
        self._held: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        """Wait until the user closes the pager, even if the command failed."""
        if not any(failure):
            for line in self._held:
                self.say(line)
        if self._pager is None or self._pager.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):
            self._pager.stdin.close()
        while self._pager.poll() is None:
            with contextlib.suppress(KeyboardInterrupt):  # the pager handles Ctrl-C
                self._pager.wait()

    def say(self, line: str, *, hold: bool = False) -> None:
        """Write a line to stderr; with `hold` after the command, and only if it succeeds.

        With --json, an error must be the only object on stderr.
        """
        if hold:
            self._held.append(line)
            return
        sys.stderr.write(f"{fit(escape_commands(line), sys.stderr)}\n")
        sys.stderr.flush()

    def write(self, blocks: Iterable[Block], *, paged: bool = False) -> None:
        """Write the blocks with all their text escaped."""
        if not sys.stdout.isatty():
            lines: Iterable[str] = map(escape_commands, plain_lines(blocks))
            if not (sys.stdout.encoding or "ascii").lower().startswith("utf"):
                lines = (line.replace("→", "->") for line in lines)
            self.write_lines(lines)
            return
        import shutil

        from icectl.render.screen import draw, make_console

        blocks = self._begun(blocks)
        if self._pager is None and paged and is_terminal(sys.stdout, self._environ):
            self._pager = _start_pager(self._environ)
        stream: Any = sys.stdout if self._pager is None else self._pager.stdin
        width = shutil.get_terminal_size().columns
        console = make_console(
            stream, self._environ, no_color=self._no_color, terminal=True, width=width
        )
        with _reported_failures():
            draw(blocks, console)
            stream.flush()

    def write_lines(self, lines: Iterable[str]) -> None:
        """Write lines unchanged, such as JSON: in large batches to a pipe, singly to a terminal."""
        rest = iter(self._begun(lines))
        count = 1 if sys.stdout.isatty() else LINES_PER_WRITE
        with _reported_failures():
            while batch := list(islice(rest, count)):
                sys.stdout.write("\n".join(batch) + "\n")
            sys.stdout.flush()

    def _begun(self, items: Iterable[T]) -> Iterable[T]:
        found = peek(items)
        self._begin()
        return found or ()

    def write_bytes(self, data: bytes | bytearray) -> None:
        with _reported_failures():
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


@contextlib.contextmanager
def _reported_failures() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise IcectlError(f"the output cannot be written: {error.strerror}") from error


def _start_pager(environ: Mapping[str, str]) -> subprocess.Popen[str] | None:
    """Start `$ICECTL_PAGER`, `$PAGER` or less; return None if there is none or it is `cat`.

    The pager of rich collects all output first; this one streams.
    """
    import shutil
    import subprocess

    command = environ.get("ICECTL_PAGER", environ.get("PAGER", "less"))
    if command.strip() in ("", "cat") or shutil.which(command.split()[0]) is None:
        return None
    return subprocess.Popen(
        command,
        shell=True,
        stdin=subprocess.PIPE,
        text=True,
        errors="backslashreplace",
        env={"LESS": "FRX", "LV": "-c", **environ},
    )


@contextlib.contextmanager
def shown_logs(verbosity: int, display: ProgressDisplay) -> Iterator[None]:
    """Show notes with verbosity 1, and every request with its duration from 2."""
    if verbosity <= 0:
        yield
        return

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            time = f"{record.relativeCreated / 1000:.3f} s: " if verbosity > 1 else ""
            subject = f"{log_subject.get()}: " if log_subject.get() else ""
            message = escape_controls(hide_secrets(record.getMessage()))
            line = fit(f"icectl: {time}{subject}{message}", sys.stderr)
            with contextlib.suppress(OSError):  # stderr may be closed
                if not display.print_above(line):
                    sys.stderr.write(f"{line}\n")

    logger = logging.getLogger("icectl")
    handler = Handler()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbosity > 1 else logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = True
