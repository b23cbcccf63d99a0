"""`icectl log`, `show` and `ls`: the history, a commit and its nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import (
    REF_HELP,
    AtOpOption,
    DefaultRefArgument,
    Flag,
    NumberOption,
    PathArgument,
    SinceOption,
    UntilOption,
    check_exclusive,
    command,
)
from icectl.errors import RefNotFoundError
from icectl.ops.log import LogOptions, read_log, read_whole_log, shown_parents
from icectl.render.blocks import Block
from icectl.render.log import render_log, render_log_graph
from icectl.repository.commits import Commit
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.resolve import DEFAULT_REF

EXAMPLES = """
icectl log  # the history of main
icectl log --oneline -n 10 v1.0  # the tag v1.0 and the nine commits before it
icectl log --since 3d --stat  # the commits of the last three days
icectl log --path /surface/temperature  # the commits that touched one array
icectl log --all --graph --oneline  # all branches and tags as a graph
icectl log --at-op yesterday  # the history as it was then
icectl log --jsonl | jq -r .message  # for scripts
icectl show  # the newest commit of main
icectl show v1.0~2  # the second ancestor of the tag v1.0
icectl ls  # every node at the tip of main
icectl ls v1.0 /surface --tree  # one group of the tag v1.0, as a tree
icectl ls main / --depth 1  # the root group and its children
"""


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
    check_exclusive({"--all": all, "a REF": ref})
    check_exclusive({"--all": all, "--path": path})
    times = context.parse_moment(since), context.parse_moment(until, last=True)
    options = LogOptions(*times, number, path, with_changes=stat)
    repository = context.open_repository(at_op)
    if all:
        commits = read_whole_log(repository, options)
    else:
        commits = read_log(repository, DEFAULT_REF if ref is None else ref, options)

    def draw(items: Iterable[Commit]) -> Iterable[Block]:
        if not graph:
            return render_log(items, oneline=oneline)
        drawn = list(items)
        return render_log_graph(drawn, shown_parents(repository, drawn), oneline=oneline)

    shown_ref = DEFAULT_BRANCH if ref is None and not all else ref
    nothing = "no matching commits"
    context.emit_list("snapshots", commits, draw, beside={"ref": shown_ref}, if_empty=nothing)


@command()
def show(
    context: CommandContext, ref: DefaultRefArgument = DEFAULT_REF, at_op: AtOpOption = None
) -> None:
    """Show a commit in full.

    Shows its message, metadata, manifests and changes.

    The changes are relative to its parent. If ancestors in between were expired, their changes
    are included.
    """
    from icectl.ops.log import show_commit
    from icectl.render.log import render_whole_commit

    repository = context.open_repository(at_op)
    commit = show_commit(repository, ref)
    if commit.changes is None and repository.has_transaction_logs:
        context.warn(f"the transaction log of {commit.id} is missing or damaged")
    context.emit(
        commit, render_whole_commit, document=lambda commit: {"snapshot": commit}, paged=True
    )


@command(jsonl=True)
def ls(
    context: CommandContext,
    ref: DefaultRefArgument = DEFAULT_REF,
    path: PathArgument = "/",
    tree: Annotated[Flag, "Draw the hierarchy as a tree."] = False,
    depth: Annotated[
        int | None,
        typer.Option("--depth", "-d", metavar="LEVELS", min=0),
        "Show at most this many levels below PATH.",
    ] = None,
    at_op: AtOpOption = None,
) -> None:
    """List the groups and arrays of a snapshot.

    Arrays are shown with shape, chunks and data type.

    CHUNK SHAPE is the shape of one chunk, CHUNKS the number of chunks along each dimension.
    """
    from icectl.render.nodes import render_node_tree, render_nodes
    from icectl.repository.nodes import is_node, list_nodes, normalize_path

    repository = context.open_repository(at_op)
    try:
        listing = list_nodes(repository, ref, path, depth=depth)
    except RefNotFoundError as error:
        if path == "/" and is_node(repository, DEFAULT_REF, ref):
            call = context.command_line("ls", DEFAULT_BRANCH, normalize_path(ref))
            error.hint = f"give the path after the REF: {call}"
        raise
    text = render_node_tree if tree else render_nodes
    context.emit(listing, text, lines="nodes", paged=True)
