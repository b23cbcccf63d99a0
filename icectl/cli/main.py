"""The entry point: one call of icectl, from the words on the command line to the exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import NoReturn

from icectl.cli import exit_codes

COMPLETE_VARIABLE = "_ICECTL_COMPLETE"


def main() -> NoReturn:
    _replace_closed_streams()
    # numpy's linear algebra is never used; its threads would only spin while a command starts.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = run(sys.argv[1:], os.environ)
    with contextlib.suppress(OSError):  # reported already
        sys.stdout.flush()
        sys.stderr.flush()
    # Everything is written and closed. Tearing down the interpreter would be a tenth of a short
    # command, complain about a closed pipe, and wait for threads after Ctrl-C.
    os._exit(code)


def _replace_closed_streams() -> None:
    """Python has None for a stream that the caller closed, as some daemons do.

    The replacement of a closed stdout refuses writes, so that lost output is reported.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            access = os.O_WRONLY if name == "stderr" else os.O_RDONLY
            setattr(sys, name, open(os.open(os.devnull, access), mode))  # noqa: PTH123, SIM115


def run(arguments: list[str], environ: Mapping[str, str]) -> int:
    """Run one command line; the exit code."""
    import typer

    from icectl.cli.app import PROGRAM, root
    from icectl.cli.failures import report_failure
    from icectl.cli.options import Invocation

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if COMPLETE_VARIABLE in environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
        root().main(arguments, prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    invocation = Invocation(environ)
    try:
        with root().make_context(PROGRAM, list(arguments), obj=invocation) as context:
            code = root().invoke(context)
        sys.stdout.flush()
    except typer.Exit as done:
        return done.exit_code
    except (Exception, KeyboardInterrupt) as error:
        return report_failure(error, invocation, arguments)
    return code or exit_codes.DONE


if __name__ == "__main__":
    main()
