"""`icectl stats`: show storage usage."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from icectl.cli.commands.expire import build_policy
from icectl.cli.context import CommandContext
from icectl.cli.engines import EngineOption, SparkPlace
from icectl.cli.options import AtOpOption, Flag, OptionalRefArgument, Time, command
from icectl.errors import UsageError
from icectl.ops.expire.policy import Policy
from icectl.ops.stats.run import StatsOptions, measure
from icectl.render.stats import make_stats_renderer, render_stats_csv
from icectl.render.text import escape_commands

EXAMPLES = """
icectl stats  # bytes and chunks of all versions, by group and array
icectl stats main --depth 1  # only the newest version of main
icectl stats --by snapshots  # the growth over commits
icectl stats --older-than 30d  # also the bytes that expire and gc would free
icectl stats --by containers --csv  # a table for a spreadsheet
"""


class Breakdown(StrEnum):
    """An enumeration, because typer does not accept other lists of choices."""

    ARRAYS = "arrays"
    BRANCHES = "branches"
    TAGS = "tags"
    SNAPSHOTS = "snapshots"
    CONTAINERS = "containers"


OF_VERSIONS = ("branches", "tags", "snapshots")
"""Breakdowns that compare several versions."""


@command()
def stats(
    context: CommandContext,
    ref: OptionalRefArgument = None,
    by: Annotated[
        list[Breakdown] | None,
        typer.Option(metavar="WHAT"),
        "Also break down by arrays, branches, tags, snapshots or containers. Repeatable. "
        "Arrays and containers are always shown; snapshots show the growth over commits.",
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

    The own bytes of a version are those that no other version refers to; its new bytes are those
    that no older version refers to. The own bytes of a branch or tag are those that are not
    reachable from any other branch or tag.

    With --engine spark, the executors read manifests and find distinct chunks. They need icectl
    and its libraries, and use their own credentials.
    """
    chosen = set(by or ())
    if csv and len(chosen) > 1:
        raise UsageError("--csv prints one breakdown", hint="give --by once")
    if csv and not context.wants_text:
        raise UsageError("--csv and --json cannot be combined", hint="give one of them")
    for name in OF_VERSIONS:
        if name in chosen and ref is not None:
            raise UsageError(
                f"--by {name} cannot be combined with a REF",
                hint=f"omit {ref}: `icectl stats --by {name}`",
            )
    rules = _read_policy(context, older_than, policy)
    if rules is not None and ref is not None:
        raise UsageError("--older-than and --policy cannot be combined with a REF")
    engines = spark.choose(engine, context)
    options = StatsOptions(
        ref=ref,
        by_branch="branches" in chosen,
        by_tag="tags" in chosen,
        by_snapshot="snapshots" in chosen,
        policy=rules,
        choose_engine=engines.choose,
    )
    with engines:
        result = measure(context.open_repository(at_op), options, context.progress)
    if csv:
        rows: Any = getattr(result, chosen.pop() if chosen else "arrays")
        context.output.write_lines(map(escape_commands, render_stats_csv(rows)))
        return
    context.emit(result, make_stats_renderer(depth), paged=True)


def _read_policy(
    context: CommandContext, older_than: str | None, policy: str | None
) -> Policy | None:
    if older_than is None and policy is None:
        return None
    if older_than is not None and policy is not None:
        raise UsageError("--older-than and --policy cannot be combined")

    given = {"older_than": older_than} if policy is None else context.policy(policy)
    return build_policy(given, context.open_storage().read_clock)
