"""`icectl metrics`: print metrics for a monitoring system."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from icectl.cli.context import CommandContext
from icectl.cli.engines import SparkPlace
from icectl.cli.options import STDOUT, File, Flag, Time, command
from icectl.cli.values import parse_moment
from icectl.errors import UsageError
from icectl.model.redaction import redact_location
from icectl.ops.files import check_outside, check_writable, write_shared
from icectl.ops.metrics import MetricsOptions, measure_metrics
from icectl.render.json import to_json
from icectl.render.metrics import Measured, render_metrics
from icectl.render.text import escape_commands, escape_controls
from icectl.repository.open import open_repository

EXAMPLES = """
icectl metrics  # from the repo file and a listing of its backups
icectl metrics --textfile /var/lib/node_exporter/icectl.prom  # for node_exporter, from cron
icectl metrics --deep  # also bytes and objects by kind, and garbage
"""
GARBAGE_AGE = "7d"


@command()
def metrics(
    context: CommandContext,
    textfile: Annotated[
        File,
        "Write the metrics to this file instead of standard output, by renaming a temporary file "
        "in the same directory. If the command fails, an existing file is not changed. If FILE is "
        "-, it is standard output.",
    ] = None,
    deep: Annotated[
        Flag, "Also measure bytes by kind, objects and garbage, as stats and gc --dry-run do."
    ] = False,
    garbage_older_than: Annotated[
        Time,
        "With --deep: count only garbage older than this age or date, like --older-than of gc. "
        f"Default: {GARBAGE_AGE}.",
    ] = None,
) -> None:
    """Print metrics for a monitoring system.

    Prints OpenMetrics text, which Prometheus and the textfile collector of node_exporter read. The
    label `repository` is the name in the config file if the repository was given by its name, and
    otherwise its location. Times are absolute; `time() - METRIC` is an age. A FILE has the names of
    branches as they are; on standard output, control characters in them are escaped.

    By default, reads only the repo file and lists its backups. With --deep, reads everything that
    stats and gc read. Omits what the repository does not show: before spec version 2, for example,
    the number of snapshots. The ops log records a garbage collection only if it removed snapshots
    from the repo file.
    """
    if garbage_older_than is not None and not deep:
        raise UsageError("--garbage-older-than requires --deep")
    if textfile == STDOUT and not context.wants_text:
        raise UsageError(
            "--textfile - and --json cannot be combined", hint="give --textfile a FILE"
        )
    storage = context.open_storage()
    file = None if textfile == STDOUT else textfile
    if file is not None:
        check_writable("--textfile", file, is_replaced=True)
        check_outside(file, storage.location)
    with SparkPlace().choose("auto", context) as engines:
        options = MetricsOptions(choose_engine=engines.choose)
        if deep:
            from icectl.ops.gc.safeguards import check_cutoff

            now = storage.read_clock()
            cutoff = parse_moment(garbage_older_than or GARBAGE_AGE, now)
            check_cutoff(cutoff, now, allow_recent=True)  # nothing is deleted
            options = replace(options, garbage_cutoff=cutoff)
        found = measure_metrics(open_repository(storage), options, context.progress)
    name = context.repository_name or redact_location(storage.location)
    measured: list[Measured] = [(name, found, None)]
    if file is not None:
        # The exporter that reads it is another user.
        write_shared(file, render_metrics(measured).encode(), 0o644)
    if not context.wants_text:
        context.emit_json({"repository": name, **to_json(found)})
    elif file is None:
        context.display.hide()
        # OpenMetrics is UTF-8 in any locale.
        context.output.write_bytes(render_metrics(measured, _escape).encode())


def _escape(label: str) -> str:
    """Neither a terminal nor GitHub's runner acts on the label."""
    return escape_commands(escape_controls(label))
