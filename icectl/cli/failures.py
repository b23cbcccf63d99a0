"""Turn an exception into a message or JSON object on stderr and an exit code."""

from __future__ import annotations

import contextlib
import shlex
import sys
import traceback
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

import typer

from icectl.cli import exit_codes
from icectl.cli.app import PROGRAM, called_command, parameters_of
from icectl.cli.context import CommandContext
from icectl.cli.terminal import fit
from icectl.errors import (
    FormatError,
    IcectlError,
    ObjectNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
    UsageError,
)
from icectl.limits import shorten
from icectl.model.redaction import hide_known_secrets, hide_secrets


class InterruptionError(IcectlError):
    kind = "interrupted"
    exit_code = exit_codes.INTERRUPTED


class BugError(IcectlError):
    kind = "bug"
    exit_code = exit_codes.BUG


def report_failure(error: BaseException, context: CommandContext, arguments: list[str]) -> int:
    """Print the error to stderr, as an object with --json; return the exit code."""
    if isinstance(error, BrokenPipeError):
        return exit_codes.BROKEN_PIPE
    if isinstance(error, typer.TyperException):
        error = _usage_error(error, arguments)
    document = describe_failure(error, context)
    # The raw arguments, because a usage error occurs before they are parsed.
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in options or "--jsonl" in options
    with contextlib.suppress(OSError):  # stderr may be closed
        sys.stderr.write(_describe(document, as_json=as_json))
        sys.stderr.flush()
    return int(document["exit_code"])


def describe_failure(error: BaseException, context: CommandContext) -> dict[str, Any]:
    """Return the error as an object, without secrets; its hint names the repository."""
    if isinstance(error, KeyboardInterrupt):
        failure: IcectlError = InterruptionError("interrupted")
    elif isinstance(error, IcectlError):
        failure = _with_hint(error, context)
    else:
        failure = _bug(error, context)
    hint = None if failure.hint is None else shorten(hide_secrets(context.describe(failure.hint)))
    return {
        "kind": failure.kind,
        "message": shorten(hide_secrets(failure.message)),
        "hint": hint,
        "exit_code": failure.exit_code,
        **(failure.facts or {}),
    }


def _bug(error: BaseException, context: CommandContext) -> BugError:
    if context.environ.get("ICECTL_DEBUG") or context.options.verbose >= 2:
        trace = "".join(traceback.format_exception(error))
        with contextlib.suppress(OSError):
            sys.stderr.write(hide_secrets(hide_known_secrets(trace, context.environ)))
    message = f"this is a bug in icectl: {type(error).__name__}: {error}"
    return BugError(
        hide_known_secrets(message, context.environ),
        hint="please report it with the traceback (ICECTL_DEBUG=1) and icectl --version",
    )


def _usage_error(error: typer.TyperException, arguments: list[str]) -> UsageError:
    """Report an error found by typer: an unknown option, a missing or invalid value."""
    from icectl.cli.locations import is_repository_directory

    option = getattr(error, "option_name", None)
    if found := getattr(error, "possibilities", None):
        found[:] = [one for one in found if _is_typo(str(option), one)]
    message = " ".join(error.format_message().split()).replace("Value error, ", "").rstrip(".")
    command = called_command(arguments)
    path = f"{PROGRAM} {command}".rstrip()
    hint = f"see {path} --help"
    if message.startswith("No such option") and any(
        option in one.opts for one in parameters_of(command)
    ):
        hint = f"write the option after the command: {path} {option}"
    if "unexpected extra argument" in message:
        for word in filter(is_repository_directory, arguments):
            hint = f"give the repository with -r: {path} -r {shlex.quote(word)}"
    return UsageError(message[:1].lower() + message[1:], hint=hint)


def _is_typo(option: str, known: str) -> bool:
    """Whether the known option is likely meant; `--at-op` does not mean `--adopt`."""
    names = option.strip("-"), known.strip("-")
    return names[1].startswith(names[0]) or SequenceMatcher(None, *names).ratio() > 0.7


def _with_hint(error: IcectlError, context: CommandContext) -> IcectlError:
    """Add the hint that only the command line knows."""
    from icectl.cli.locations import is_repository_directory, suggest_repository

    if isinstance(error, RefNotFoundError | RepositoryNotFoundError):
        named = context.options.repo or context.environ.get("ICECTL_REPO")
        if named and isinstance(error, RepositoryNotFoundError) and not error.has_remains:
            error.hint = suggest_repository(named, context.environ) or error.hint
        for value in filter(is_repository_directory, context.words):
            call = f"icectl {context.command} -r {shlex.quote(value)}"
            error.hint = f"to use the repository {value}, run {call}"
    elif isinstance(error, FormatError | ObjectNotFoundError):
        if context.command in ("inspect-file", "validate"):
            return error
        # By default validate reads neither manifests nor chunks.
        kind = (error.path or "").partition("/")[0]
        level = f" --level {kind}" if kind in ("manifests", "chunks") else ""
        hint = error.hint or f"find all damage with `icectl validate{level}`"
        if isinstance(error, ObjectNotFoundError):
            # The repository refers to the file, so the repository is damaged.
            return FormatError("the file is missing", path=error.path, hint=hint)
        error.hint = hint
    return error


def _describe(error: Mapping[str, Any], *, as_json: bool) -> str:
    if as_json:
        from icectl.render.json import render_json

        return render_json({"error": error}) + "\n"
    from icectl.render.text import escape_commands, escape_controls

    lines = [f"icectl: error: {escape_controls(error['message'])}"]
    if error["hint"] is not None:
        lines.append(f"hint: {escape_controls(error['hint'])}")
    return "".join(f"{fit(escape_commands(line), sys.stderr)}\n" for line in lines)
