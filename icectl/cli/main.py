"""The entry point: run one command line and return the exit code."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Mapping
from typing import NoReturn

from icectl.cli import exit_codes

COMPLETE_VARIABLE = "_ICECTL_COMPLETE"


def main() -> NoReturn:
    _replace_closed_streams()
    # icectl does not use numpy's linear algebra, whose threads would slow down the start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Loading modules creates many objects and no garbage cycles: looking for them takes a twentieth
    # of the time of a short command.
    gc.set_threshold(100_000)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # Clean up and report, as after Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = run(sys.argv[1:], os.environ)
    with contextlib.suppress(OSError):  # already reported
        sys.stdout.flush()
        sys.stderr.flush()
    # All output is written and closed. Finalizing the interpreter would take a tenth of the time
    # of a short command, complain about a closed pipe, and wait for threads after Ctrl-C.
    os._exit(code)


def _replace_closed_streams() -> None:
    """Replace streams that are None because the caller, such as a daemon, closed them.

    The replacement for stdout refuses writes, so lost output is reported.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            access = os.O_WRONLY if name == "stderr" else os.O_RDONLY
            setattr(sys, name, open(os.open(os.devnull, access), mode))  # noqa: PTH123, SIM115


def run(arguments: list[str], environ: Mapping[str, str]) -> int:
    """Run one command line; return the exit code."""
    import typer

    from icectl.cli.app import GROUPS, PROGRAM, root
    from icectl.cli.context import CommandContext
    from icectl.cli.failures import report_failure

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if COMPLETE_VARIABLE in environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        # typer wraps the help at this width, and shells take every line for a candidate.
        os.environ.update(COLUMNS="1000")
        completion_init()
        root().main(arguments, prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE)
    if "help" in arguments[:2] and (arguments[0] == "help" or arguments[0] in GROUPS):
        arguments = [*(word for word in arguments if word != "help"), "--help"]
    context = CommandContext(environ, arguments)
    try:
        with root().make_context(PROGRAM, list(arguments), obj=context) as ctx:
            code = root().invoke(ctx)
        sys.stdout.flush()
    except typer.Exit as done:
        return done.exit_code
    except (Exception, KeyboardInterrupt) as error:
        return report_failure(error, context, arguments)
    return code or exit_codes.DONE


if __name__ == "__main__":
    main()
