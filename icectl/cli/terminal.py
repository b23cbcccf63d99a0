"""Where data goes: stdout, or a pager when stdout is a terminal. Notes go to stderr."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Self, TextIO

from icectl.errors import IcectlError
from icectl.render.style import Style
from icectl.render.text import escape_commands

if TYPE_CHECKING:
    import subprocess

LINES_PER_WRITE = 500


def is_terminal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether colour, bars and questions are welcome on the stream."""
    return stream.isatty() and environ.get("TERM") != "dumb"


def detect_style(stream: TextIO, environ: Mapping[str, str], *, no_color: bool) -> Style:
    encoding = (stream.encoding or "ascii").lower().replace("-", "")
    unicode = encoding.startswith("utf")
    if not stream.isatty():
        return Style(unicode=unicode)
    import shutil

    colour = is_terminal(stream, environ) and not no_color and not environ.get("NO_COLOR")
    return Style(colour=colour, width=shutil.get_terminal_size().columns, unicode=unicode)


class Output:
    """Lines of data to stdout, through the pager on a terminal, in large writes elsewhere."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._pager: subprocess.Popen[str] | None = None
        self._held: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        """Wait for the reader of the pager, also when the command failed half-way."""
        if not any(failure):
            for line in self._held:
                self.say(line)
        if self._pager is None:
            return
        if self._pager.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._pager.stdin.close()
        while True:
            try:
                self._pager.wait()
                return
            except KeyboardInterrupt:
                continue  # Ctrl-C inside the pager is the pager's own

    def say(self, line: str, *, hold: bool = False) -> None:
        """A line to stderr; `hold` it until the command is done, and drop it when that fails.

        Under --json an error is the one object on stderr, so that nothing may stand beside it.
        """
        if hold:
            self._held.append(line)
            return
        sys.stderr.write(f"{escape_commands(line)}\n")
        sys.stderr.flush()

    def write(
        self, lines: Iterable[str], *, paged: bool = False, workflow_commands: bool = False
    ) -> None:
        """Print the lines; `workflow_commands` when they are meant for GitHub's runner."""
        if not workflow_commands:
            lines = map(escape_commands, lines)
        stream = self._stream(paged)
        batch: list[str] = []
        interactive = stream is not sys.stdout or stream.isatty()
        try:
            for line in lines:
                batch.append(line)
                if interactive or len(batch) >= LINES_PER_WRITE:
                    stream.write("\n".join(batch) + "\n")
                    batch.clear()
            if batch:
                stream.write("\n".join(batch) + "\n")
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise IcectlError(f"the output cannot be written: {error.strerror}") from error

    def write_bytes(self, data: bytes | bytearray) -> None:
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise IcectlError(f"the output cannot be written: {error.strerror}") from error

    def _stream(self, paged: bool) -> TextIO:
        if self._pager is None and paged and is_terminal(sys.stdout, self._environ):
            self._pager = _start_pager(self._environ)
        if self._pager is not None and self._pager.stdin is not None:
            return self._pager.stdin  # type: ignore[return-value]
        return sys.stdout


def _start_pager(environ: Mapping[str, str]) -> subprocess.Popen[str] | None:
    """`$ICECTL_PAGER`, `$PAGER` or less; None where there is none or it is `cat` or empty."""
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
