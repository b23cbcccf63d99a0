"""`icectl log`: show the commit history."""

from __future__ import annotations

from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import (
    REF_HELP,
    AtOpOption,
    Flag,
    NumberOption,
    SinceOption,
    UntilOption,
    command,
)
from icectl.errors import UsageError
from icectl.ops.log import LogOptions, read_log, read_whole_log, shown_parents
from icectl.render.log import render_log, render_log_graph
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.resolve import DEFAULT_REF

EXAMPLES = {
    "log": (
        ("icectl log", "the history of main"),
        ("icectl log --oneline -n 10 v1.0", "the tag v1.0 and the nine commits before it"),
        ("icectl log --since 3d --stat", "the commits of the last three days"),
        ("icectl log --path /surface/temperature", "the commits that touched one array"),
        ("icectl log --all --graph --oneline", "all branches and tags as a graph"),
        ("icectl log --at-op yesterday", "the history as it was then"),
        ("icectl log --jsonl | jq -r .message", "for scripts"),
    )
}
NOTHING_FITS = "no matching commits"


@command(jsonl=True)
def log(
    context: CommandContext,
    ref: Annotated[str | None, typer.Argument(metavar="REF"), f"{REF_HELP} Default: main."] = None,
    number: NumberOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    oneline: Annotated[Flag, "Show one line per commit."] = False,
    stat: Annotated[Flag, "Count the changes of each commit, from its transaction log."] = False,
    path: Annotated[
        str | None,
        typer.Option(metavar="PATH"),
        "Only commits that changed this node or its descendants, across moves.",
    ] = None,
    all: Annotated[Flag, "Show all snapshots, including those on no branch."] = False,  # noqa: A002
    graph: Annotated[Flag, "Draw the history as a graph."] = False,
    at_op: AtOpOption = None,
) -> None:
    """Show the commit history.

    Shows the history of a branch, tag or snapshot, by default of main, newest first. A..B shows
    the commits in B that are not in A. With --path, also follows nodes that had this path before
    they were moved or deleted.
    """
    if all and ref is not None:
        raise UsageError("--all and a REF cannot be combined", hint="omit one of them")
    if all and path is not None:
        raise UsageError("--path and --all cannot be combined", hint="omit --all")
    options = LogOptions(
        context.parse_moment(since),
        context.parse_moment(until, last=True),
        number,
        path,
        with_changes=stat,
    )
    repository = context.open_repository(at_op)
    if all:
        commits = read_whole_log(repository, options)
    else:
        commits = read_log(repository, DEFAULT_REF if ref is None else ref, options)
    if graph and context.wants_text:
        drawn = list(commits)
        parents = shown_parents(repository, drawn)
        lines = render_log_graph(drawn, parents, oneline=oneline)
        context.output.write(lines, paged=True)
        if not drawn:
            context.note(NOTHING_FITS)
        return
    context.emit_list(
        "snapshots",
        commits,
        lambda items: render_log(items, oneline=oneline),
        beside={"ref": DEFAULT_BRANCH if ref is None and not all else ref},
        if_empty=NOTHING_FITS,
    )
