"""The context of a command: repository, output and user interaction.

Nothing is opened, read or imported before a command needs it.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from icectl.cli.options import CommonOptions
from icectl.cli.terminal import Output, fit, is_terminal, peek
from icectl.cli.values import parse_age, parse_moment
from icectl.errors import Hint, RefusedError, UsageError
from icectl.render.blocks import Block, plain_lines
from icectl.render.text import escape_controls

if TYPE_CHECKING:
    from rich.console import Console

    from icectl.cli.config_file import ConfigFile
    from icectl.cli.locations import Location
    from icectl.pipeline.progress import Progress
    from icectl.render.progress import ProgressDisplay
    from icectl.repository.repository import Repository
    from icectl.storage.contract import Storage

T = TypeVar("T")
Renderer = Callable[[T], Iterable[Block]]


class CommandContext:
    """One run of icectl; the command and its options are known once they are parsed."""

    def __init__(self, environ: Mapping[str, str], arguments: Sequence[str] = ()) -> None:
        self.environ = environ
        self.arguments = arguments
        """What the user typed after `icectl`."""
        self.options = CommonOptions()
        self.command = ""
        self.words: Sequence[str] = ()
        """The texts among the arguments of a command that takes --repo."""
        self.takes_locations = True
        """Whether a repository can be given by a path or URL, not only by its name."""
        self.storage_option_name = "--storage-option"
        """What hints call it; `copy` has two."""

    @cached_property
    def output(self) -> Output:
        return Output(self.environ, lambda: self.display.hide(), no_color=self.options.no_color)

    @property
    def wants_text(self) -> bool:
        return not (self.options.json or self.options.jsonl)

    @cached_property
    def config(self) -> ConfigFile:
        from icectl.cli.config_file import read_config_file

        return read_config_file(self.environ)

    def for_repository(self, name: str) -> CommandContext:
        """Return the context of the same run with another repository."""
        context = copy(self)
        context.takes_locations = False
        context.options = replace(self.options, repo=name)
        context.__dict__.pop("location", None)
        return context

    @property
    def repository_name(self) -> str | None:
        """The name from the config file by which the repository was given, if it was."""
        from icectl.cli.locations import looks_like_location

        named = self.options.repo or self.environ.get("ICECTL_REPO")
        if not named or looks_like_location(named):
            return None
        return named if named in self.config.repositories else None

    @cached_property
    def location(self) -> Location:
        """The location of the repository, found as the help of `--repo` says."""
        return self._find_location(self.options.repo)

    def _find_location(self, repo: str | None, options: Sequence[str] = ()) -> Location:
        from icectl.cli.locations import find_location, is_hidden_directory

        found = find_location(repo, options or self.options.storage_option or (), self.environ)
        named = repo or self.environ.get("ICECTL_REPO")
        if named and self.takes_locations and is_hidden_directory(named, found):
            self.note(f"{named} is a name from the config file; for the directory, write ./{named}")
        return found

    def open_storage(self, location: str | None = None, options: Sequence[str] = ()) -> Storage:
        """Return the storage at `location` (default: `self.location`) without reading from it.

        `options` are its storage options (default: those of `--storage-option`).
        """
        from icectl.cli.locations import open_location

        found = self.location if location is None else self._find_location(location, options)
        return open_location(found, self.environ)

    def open_repository(self, at_op: str | None = None, *, for_update: bool = False) -> Repository:
        """Open the repository, in the state after the operation if one is given."""
        from icectl.repository.open import open_repository

        storage = self.open_storage()
        if at_op is None:
            return open_repository(storage, for_update=for_update)
        from icectl.repository.operations import open_at

        return open_at(storage, at_op, self.parse_time)

    def find_state(self, at_op: str | None) -> str | None:
        """Return the backup with the state after the operation, which names it for good.

        None for the newest state.
        """
        if at_op is None:
            return None
        from icectl.repository.operations import find_state
        from icectl.repository.ops_log import REPO_PATH

        path = find_state(self.open_storage(), at_op, self.parse_time)
        return None if path == REPO_PATH else path

    def command_line(self, command: str, *arguments: str) -> str:
        """Return a command line for the same repository that a user can paste into a shell."""
        options = self.options.repository_words()
        if any(argument.startswith("-") for argument in arguments):
            return f"icectl {command} {options} -- {shlex.join(arguments)}"
        return " ".join(filter(None, ("icectl", command, shlex.join(arguments), options)))

    def describe(self, hint: Hint) -> str:
        """Return the sentence; its commands name the repository as the user did."""
        from icectl.cli.hints import describe_hint

        return describe_hint(hint, self.options, self.storage_option_name)

    def now(self) -> int:
        """Microseconds since 1970-01-01 UTC; `ICECTL_NOW` overrides it for golden output."""
        fixed = self.environ.get("ICECTL_NOW")
        if not fixed:
            return time.time_ns() // 1000
        try:
            return parse_moment(fixed, 0)
        except UsageError:
            raise UsageError(
                f"ICECTL_NOW is {fixed!r}, which is not a time",
                hint="unset ICECTL_NOW, or set a time such as 2024-01-31T12:00:00Z",
            ) from None

    def parse_time(self, text: str) -> int:
        """Parse a date, a time or an age."""
        return parse_moment(text, self.now())

    def parse_moment(self, text: str | None, *, last: bool = False) -> int | None:
        """Parse a value of `--since`, or with `last` of `--until`; None stays None."""
        return None if text is None else parse_moment(text, self.now(), last=last)

    def emit(
        self,
        result: T,
        text: Renderer[T],
        *,
        document: Callable[[T], Any] = lambda result: result,
        lines: str | None = None,
        paged: bool = False,
    ) -> None:
        """Print a result as JSON, or as the blocks of `text(result)`.

        With `--jsonl`, print one object per element of the field `lines`.
        """
        if self.wants_text:
            self.output.write(text(result), paged=paged)
        elif self.options.jsonl and lines is not None:
            self.emit_lines(getattr(result, lines))
        else:
            self.emit_json(document(result))

    def emit_list(
        self,
        key: str,
        items: Iterable[T],
        text: Renderer[Iterable[T]],
        *,
        beside: Mapping[str, Any] | None = None,
        paged: bool = True,
        if_empty: str = "",
    ) -> None:
        """Print a list: as `{**beside, key: [...]}`, one object per line, or rendered by `text`.

        `items` may be an iterator: `--jsonl` and a streaming `text` print items as they arrive.
        """
        if self.options.jsonl:
            self.emit_lines(items)
        elif self.options.json:
            self.emit_json({**(beside or {}), key: list(items)})
        else:
            found = peek(items)
            if if_empty and found is None:
                self.note(if_empty)
            self.output.write(text(found or ()), paged=paged)

    def emit_json(self, document: Any) -> None:
        from icectl.render.json import render_json

        indent = self.options.json and sys.stdout.isatty()
        self.output.write_lines([render_json(document, indent=indent)])

    def emit_lines(self, items: Iterable[Any]) -> None:
        """Print one JSON object per line."""
        from icectl.render.json import render_json

        self.output.write_lines(map(render_json, items))

    def note(self, message: str) -> None:
        """Print a note to stderr, except with --quiet."""
        if not self.options.quiet:
            self._say(message)

    def warn(self, message: str) -> None:
        """Print a warning to stderr, even with --quiet."""
        self._say(f"warning: {message}")

    @cached_property
    def display(self) -> ProgressDisplay:
        """Shows bars on a terminal, a line every 30 seconds elsewhere, nothing with --quiet."""
        from icectl.render.progress import ProgressDisplay

        if self.options.quiet:
            return ProgressDisplay()
        if not is_terminal(sys.stderr, self.environ):
            return ProgressDisplay(log=self._say)
        # Taken now: while Java starts, descriptor 2 is a pipe.
        terminal = os.fdopen(os.dup(2), "w")
        return ProgressDisplay(lambda: self._error_console(terminal))

    @cached_property
    def progress(self) -> Progress:
        return self.progress_within(None)

    def progress_within(self, age: str | None) -> Progress:
        """Return the progress of work that must end after this time, if one is given."""
        from icectl.pipeline.progress import Progress

        deadline = None if age is None else time.monotonic() + parse_age(age) / 1e6
        return Progress(self.display.phase, deadline)

    def _error_console(self, stream: TextIO | None = None) -> Console:
        import shutil

        from icectl.render.screen import make_console

        stream = stream or sys.stderr
        width = shutil.get_terminal_size().columns if stream.isatty() else None
        return make_console(stream, self.environ, no_color=self.options.no_color, width=width)

    @property
    def is_interactive(self) -> bool:
        """Whether a user can answer questions."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def confirm(self, question: str, *, yes: bool, plan: Iterable[Block] = ()) -> None:
        """Show the plan and ask for confirmation; raise `RefusedError` if the user declines."""
        if yes:
            return
        if not self.is_interactive:
            if self.wants_text:
                for line in plain_lines(plan):
                    self.output.say(line)
            end = self.arguments.index("--") if "--" in self.arguments else len(self.arguments)
            words = ["icectl", *self.arguments[:end], "--yes", *self.arguments[end:]]
            raise RefusedError(
                f"{self.command} needs confirmation, but there is no terminal",
                hint=f"to confirm it, run: {shlex.join(words)}",
            )
        from rich.prompt import Confirm
        from rich.text import Text

        from icectl.render.screen import draw

        self.display.hide()
        console = self._error_console()
        draw(plan, console)
        prompt = Text(escape_controls(question))
        try:
            agreed = Confirm.ask(prompt, console=console, default=False)
        except EOFError:
            agreed = False
        if not agreed:
            raise RefusedError(f"{self.command} was not confirmed; nothing was changed")
        self.display.show_later()

    def _say(self, message: str) -> None:
        line = f"icectl: {escape_controls(message)}"
        if not self.wants_text or not self.display.print_above(fit(line, sys.stderr)):
            self.output.say(line, hold=not self.wants_text)
