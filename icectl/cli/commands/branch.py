"""`icectl branch`: list, create, move and delete branches."""

from __future__ import annotations

from icectl.cli.context import CommandContext
from icectl.cli.options import (
    AtOpOption,
    BranchArgument,
    DefaultRefArgument,
    ExpectOption,
    NewNameArgument,
    RefArgument,
    command,
)
from icectl.ops import refs
from icectl.render.refs import render_branch_change, render_branches
from icectl.repository.resolve import DEFAULT_REF

EXAMPLES = {
    "branch list": (
        ("icectl branch list", "every branch and the commit at its tip"),
        ("icectl branch list --at-op @1", "the branches before the last operation"),
    ),
    "branch create": (
        ("icectl branch create dev", "a branch at the tip of main"),
        ("icectl branch create fix v1.0", "a branch at the commit of tag v1.0"),
    ),
    "branch delete": (
        ("icectl branch delete dev", "gc deletes the commits later"),
        ("icectl branch delete dev --expect 4KGM3P2Q", "only if it has not moved"),
    ),
    "branch reset": (
        ("icectl branch reset main main~1", "undo the newest commit of main"),
        ("icectl branch reset main 9XJF5WGW --expect 4KGM3P2Q", "only if it has not moved"),
    ),
}


@command(jsonl=True)
def list_branches(context: CommandContext, at_op: AtOpOption = None) -> None:
    """List the branches.

    Shows the newest commit of each.
    """
    listing = refs.list_branches(context.open_repository(at_op))
    if context.options.jsonl:
        context.emit_list("branches", listing.branches, lambda _branches: ())
    else:
        context.emit(listing, render_branches, paged=True)


@command()
def create(context: CommandContext, name: NewNameArgument, ref: DefaultRefArgument = None) -> None:
    """Create a branch.

    The branch points to REF, by default to the tip of main.
    """
    at = DEFAULT_REF if ref is None else ref
    context.emit(refs.create_branch(context.open_repository(), name, at), render_branch_change)


@command()
def delete(context: CommandContext, branch: BranchArgument, expect: ExpectOption = None) -> None:
    """Delete a branch.

    The branch main cannot be deleted.

    Only the name is deleted, without confirmation, as in git. The output shows the snapshot that
    the branch pointed to; to undo, create a branch there before gc deletes the snapshots that no
    other ref reaches. With --expect the branch is deleted only if it still points to that REF.
    """
    change = refs.delete_branch(context.open_repository(), branch, expect)
    context.emit(change, render_branch_change)
    undo = context.command_line("branch create", branch, str(change.previous_snapshot_id))
    context.note(f"to undo: {undo}")


@command()
def reset(
    context: CommandContext,
    branch: BranchArgument,
    ref: RefArgument,
    expect: ExpectOption = None,
) -> None:
    """Move a branch to another commit.

    There is no confirmation. The output shows the snapshot that the branch pointed to; to undo,
    reset the branch to it before gc deletes the snapshots that no other ref reaches. With
    --expect the branch is moved only if it still points to that REF.
    """
    change = refs.reset_branch(context.open_repository(), branch, ref, expect)
    context.emit(change, render_branch_change)
    if change.previous_snapshot_id != change.snapshot_id:
        undo = context.command_line("branch reset", branch, str(change.previous_snapshot_id))
        context.note(f"to undo: {undo}")
