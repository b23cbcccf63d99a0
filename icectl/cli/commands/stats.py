"""`icectl stats`: show storage usage."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from icectl.cli.context import CommandContext
from icectl.cli.engines import EngineOption, SparkPlace
from icectl.cli.options import AtOpOption, File, Flag, OptionalRefArgument, Time, command
from icectl.cli.policies import read_policy
from icectl.errors import UsageError
from icectl.ops.files import check_outside, check_writable, write_shared
from icectl.ops.stats.run import StatsOptions, measure
from icectl.render.stats import render_stats, render_stats_csv
from icectl.render.text import escape_commands

EXAMPLES = """
icectl stats  # bytes and chunks of all versions, by group and array
icectl stats main --depth 1  # only the newest version of main
icectl stats --by snapshots  # the growth over commits
icectl stats --older-than 30d  # also the bytes that expire and gc would free
icectl stats --by snapshots --plot growth.svg  # a chart of the storage over time
icectl stats --by containers --csv  # a table for a spreadsheet
"""


# typer does not accept other lists of choices.
Breakdown = StrEnum("Breakdown", "arrays branches tags snapshots growth containers")
OF_VERSIONS = ("branches", "tags", "snapshots", "growth")
"""Breakdowns that compare several versions."""


@command()
def stats(
    context: CommandContext,
    ref: OptionalRefArgument = None,
    by: Annotated[
        list[Breakdown] | None,
        typer.Option(metavar="WHAT"),
        "Also break down by arrays, branches, tags, snapshots, growth or containers. Repeatable. "
        "Arrays and containers are always shown; snapshots show the growth over commits, and "
        "growth shows what each commit added to the largest arrays.",
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option("--depth", metavar="COUNT", min=0),
        "Show at most this many levels of groups.",
    ] = None,
    older_than: Annotated[
        Time, "Show how much more gc could free after `icectl expire --older-than TIME`."
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME"),
        "Show how much more gc could free after `icectl expire --policy NAME`.",
    ] = None,
    plot: Annotated[
        File,
        "Also draw a chart into FILE, as SVG or PNG by its ending: the bytes by array, or with "
        "--by snapshots the growth over time.",
    ] = None,
    csv: Annotated[Flag, "Print one breakdown as CSV: that of --by, default arrays."] = False,
    at_op: AtOpOption = None,
    engine: EngineOption = "auto",
    *,
    spark: SparkPlace,
) -> None:
    """Show storage usage.

    Counts each chunk object once, however many versions refer to it. Inline chunks are part of the
    manifests and count in each of them. Without REF, counts all versions that are reachable from
    a branch or tag; with REF, only that version. If two arrays share a chunk, it counts for the
    first of them.

    Of a version, ITS OWN are the bytes that no other version refers to, and NEW those that no older
    version refers to. Of a branch or tag, ITS OWN are those that no other branch or tag reaches.

    With --engine spark, the executors read manifests and find distinct chunks. They need icectl
    and its libraries, and use their own credentials.
    """
    chosen = set(by or ())
    if csv and len(chosen) > 1:
        raise UsageError("--csv prints one breakdown", hint="give --by once")
    if csv and not context.wants_text:
        raise UsageError("--csv and --json cannot be combined", hint="give one of them")
    if plot is not None:
        _check_plot(plot)
        check_outside(plot, context.open_storage().location)
    for name in OF_VERSIONS:
        if name in chosen and ref is not None:
            raise UsageError(
                f"--by {name} cannot be combined with a REF",
                hint=f"omit {ref}: `icectl stats --by {name}`",
            )
    rules = read_policy(context, {"older_than": older_than}, policy)
    if rules is not None and ref is not None:
        raise UsageError("--older-than and --policy cannot be combined with a REF")
    engines = spark.choose(engine, context)
    plots_growth = plot is not None and not chosen.isdisjoint(("snapshots", "growth"))
    options = StatsOptions(
        ref=ref,
        by_branch="branches" in chosen,
        by_tag="tags" in chosen,
        by_snapshot="snapshots" in chosen or plots_growth,
        by_growth="growth" in chosen or plots_growth,
        policy=rules,
        choose_engine=engines.choose,
    )
    with engines:
        result = measure(context.open_repository(at_op), options, context.progress)
    if plot is not None:
        from icectl.render.report.charts import plot_stats

        write_shared(plot, plot_stats(result, _plot_kind(plot)))
        context.note(f"the chart was written to {plot}")
        result = replace(
            result,
            snapshots=result.snapshots if "snapshots" in chosen else None,
            growth=result.growth if "growth" in chosen else None,
        )
    if csv:
        rows: Any = getattr(result, chosen.pop() if chosen else "arrays")
        context.output.write_lines(map(escape_commands, render_stats_csv(rows)))
        return
    context.emit(result, partial(render_stats, depth=depth), paged=True)


def _plot_kind(path: Path) -> str:
    return path.suffix.lower().removeprefix(".")


def _check_plot(path: Path) -> None:
    from icectl.render.report.charts import KINDS, load_vega

    if _plot_kind(path) not in KINDS:
        raise UsageError(
            f"invalid value '{path}' for --plot", hint="give it a name that ends in .svg or .png"
        )
    check_writable("--plot", path, is_replaced=True)
    load_vega()
