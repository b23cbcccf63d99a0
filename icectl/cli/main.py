"""The entry point: find the command, run it, and tell every failure in one place.

`--version` and `--help` need nothing but the tree. For a command its module is imported,
typer parses, and the command runs; an `IcectlError` becomes one sentence, a hint and its
exit code, anything unforeseen is exit code 70.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Mapping
from typing import NoReturn, TextIO

from icectl.cli import exit_codes
from icectl.cli.tree import COMMANDS, GROUPS, find_command
from icectl.errors import (
    FormatError,
    IcectlError,
    ObjectNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
    UsageError,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from icectl.cli.parse import Invocation


def main() -> NoReturn:
    _replace_closed_streams()
    # numpy's linear algebra is never used; its threads would only spin while a command starts.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = run(sys.argv[1:], os.environ)
    with contextlib.suppress(OSError):  # told already
        sys.stdout.flush()
        sys.stderr.flush()
    # All is written and closed. Taking the interpreter apart would be a tenth of a short
    # command, complain about a closed pipe, and wait for threads after Ctrl-C.
    os._exit(code)


def _replace_closed_streams() -> None:
    """Python has None for a stream that was closed by the caller, as some daemons do.

    What is written to a closed stdout is lost, and that is told: its replacement refuses it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            access = os.O_WRONLY if name == "stderr" else os.O_RDONLY
            setattr(sys, name, open(os.open(os.devnull, access), mode))  # noqa: PTH123, SIM115


def run(arguments: list[str], environ: Mapping[str, str]) -> int:
    """Run one command line; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(arguments, environ)
        sys.stdout.flush()
        return code
    except IcectlError as error:
        return _report(
            error.kind, error.message, error.hint, error.exit_code, arguments, error.facts
        )
    except KeyboardInterrupt:
        return _report("interrupted", "interrupted", None, exit_codes.INTERRUPTED, arguments)
    except BrokenPipeError:
        return exit_codes.BROKEN_PIPE
    except Exception as error:
        if environ.get("ICECTL_DEBUG") or _verbosity(arguments) >= 2:
            _print_traceback(environ)
        from icectl.cli.locations import hide_known_secrets

        return _report(
            "bug",
            hide_known_secrets(
                f"this is a bug in icectl: {type(error).__name__}: {error}", environ
            ),
            "please report it with the traceback (ICECTL_DEBUG=1) and icectl --version",
            exit_codes.BUG,
            arguments,
        )


def _print_traceback(environ: Mapping[str, str]) -> None:
    import traceback

    from icectl.cli.locations import hide_known_secrets, hide_secrets

    with contextlib.suppress(OSError):
        sys.stderr.write(hide_secrets(hide_known_secrets(traceback.format_exc(), environ)))


def _dispatch(arguments: list[str], environ: Mapping[str, str]) -> int:
    from icectl.cli import help as help_pages

    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if not arguments:
        _write(help_pages.render_help(), sys.stderr)
        return exit_codes.USAGE
    if arguments[0] in ("--help", "-h"):
        return _write(help_pages.render_help(), sys.stdout)
    if arguments[0] in ("--version", "-V"):
        return _write(help_pages.render_version(), sys.stdout)
    if arguments[0] == "__complete":
        from icectl.cli.complete import complete

        return _write(complete(arguments[1:], environ), sys.stdout)

    command, rest = find_command(arguments)
    if command is None:
        if arguments[0] in GROUPS and (len(arguments) > 1 and arguments[1] in ("--help", "-h")):
            return _write(help_pages.render_group_help(arguments[0]), sys.stdout)
        raise _no_such_command(arguments)

    from icectl.cli.parse import parse

    invocation = parse(command, rest)
    return exit_codes.DONE if invocation is None else _invoke(invocation, environ)


def _invoke(invocation: Invocation, environ: Mapping[str, str]) -> int:
    from icectl.cli.context import CommandContext
    from icectl.cli.locations import is_repository_directory, suggest_repository
    from icectl.cli.logs import shown_logs

    context = CommandContext(invocation.command.name, invocation.common, environ)
    try:
        with context.output, shown_logs(invocation.common.verbose, environ):
            return invocation.function.body(context, **invocation.arguments) or exit_codes.DONE
    except (RefNotFoundError, RepositoryNotFoundError) as error:
        import shlex

        named = context.options.repo or environ.get("ICECTL_REPO")
        if named and isinstance(error, RepositoryNotFoundError) and not error.has_remains:
            error.hint = suggest_repository(named, environ) or error.hint
        places = invocation.words() if invocation.function.repository else ()
        for value in filter(is_repository_directory, places):
            call = f"icectl {invocation.command.name} -r {shlex.quote(value)}"
            error.hint = f"{value} is a directory with a repository: {call}"
        raise
    except (FormatError, ObjectNotFoundError) as error:
        if invocation.command.name in ("inspect-file", "validate"):
            raise
        # Without a level only metadata is looked at.
        level = " --level manifests" if (error.path or "").startswith("manifests/") else ""
        hint = error.hint or f"icectl validate{level} tells what is damaged, and what is sound"
        if isinstance(error, ObjectNotFoundError):
            # It was the repository that named it.
            raise FormatError("the file is missing", path=error.path, hint=hint) from error
        error.hint = hint
        raise


def _no_such_command(arguments: list[str]) -> UsageError:
    first = arguments[0]
    names = [command.name for command in COMMANDS]
    known = [*dict.fromkeys(name.split(" ")[0] for name in names)]
    if first.startswith("-"):
        import shlex

        place = next((index for index, word in enumerate(arguments) if word in known), None)
        before = arguments[:1] if place is None else arguments[:place]
        named = "COMMAND" if place is None else arguments[place]
        return UsageError(
            f"{first} stands before the command",
            hint=f"options stand after the command: icectl {shlex.join([named, *before])}",
        )
    group = first if first in GROUPS else None
    if group is not None:
        below = [name.split(" ")[1] for name in names if name.startswith(f"{group} ")]
        choices = "one of: " + ", ".join(below)
        if len(arguments) == 1 or arguments[1].startswith("-"):
            return UsageError(f"icectl {group} needs a subcommand", hint=choices)
        return UsageError(f"icectl {group} has no subcommand {arguments[1]!r}", hint=choices)

    import difflib

    close = difflib.get_close_matches(first, known, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else "icectl --help lists the commands"
    return UsageError(f"there is no command {first!r}", hint=hint)


def _write(lines: Iterable[str], stream: TextIO) -> int:
    try:
        stream.write("".join(f"{line}\n" for line in lines))
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise IcectlError(f"the output cannot be written: {error.strerror}") from error
    return exit_codes.DONE


def _report(
    kind: str,
    message: str,
    hint: str | None,
    code: int,
    arguments: list[str],
    facts: Mapping[str, int] | None = None,
) -> int:
    """One sentence on stderr, or one object under --json. A closed stderr changes nothing."""
    from icectl.cli.locations import hide_secrets
    from icectl.limits import shorten

    message = shorten(hide_secrets(message))
    hint = None if hint is None else shorten(hide_secrets(hint))
    try:
        sys.stderr.write(_describe(kind, message, hint, code, arguments, facts))
        sys.stderr.flush()
    except OSError:
        pass
    return code


def _describe(
    kind: str,
    message: str,
    hint: str | None,
    code: int,
    arguments: list[str],
    facts: Mapping[str, int] | None,
) -> str:
    if _wants_json(arguments):
        from icectl.render.json import render_json

        error = {"kind": kind, "message": message, "hint": hint, "exit_code": code}
        return render_json({"error": error | {**(facts or {})}}) + "\n"
    from icectl.render.text import escape_commands, escape_controls

    text = f"icectl: error: {escape_controls(message)}\n"
    text += "" if hint is None else f"hint: {escape_controls(hint)}\n"
    return escape_commands(text)


def _wants_json(arguments: list[str]) -> bool:
    """Told from the raw words, since a usage error comes before there are parsed ones."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options or "--jsonl" in options


def _verbosity(arguments: list[str]) -> int:
    return sum(
        word.count("v") if word.strip("v") == "-" else word == "--verbose" for word in arguments
    )


if __name__ == "__main__":
    main()
