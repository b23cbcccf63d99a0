"""`icectl show` and `icectl ls`: show a commit and its nodes."""

from __future__ import annotations

from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import AtOpOption, DefaultRefArgument, Flag, PathArgument, command
from icectl.errors import RefNotFoundError
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.resolve import DEFAULT_REF

EXAMPLES = """
icectl show  # the newest commit of main
icectl show v1.0~2  # the second ancestor of the tag v1.0
icectl ls  # every node at the tip of main
icectl ls v1.0 /surface --tree  # one group of the tag v1.0, as a tree
icectl ls main / --depth 1  # the root group and its children
"""


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
    if context.wants_text:
        context.output.write(render_whole_commit(commit), paged=True)
    else:
        context.emit_json({"snapshot": commit})


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
