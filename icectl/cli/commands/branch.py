"""`icectl branch`: list, create, move and delete branches."""

from __future__ import annotations

from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import (
    BranchArgument,
    DefaultRefArgument,
    ExpectOption,
    NewNameArgument,
    RefArgument,
    command,
)
from icectl.errors import UsageError
from icectl.ops import refs
from icectl.render.refs import render_branch_change, render_branches
from icectl.repository.resolve import DEFAULT_REF

EXAMPLES = {
    "branch list": (("icectl branch list", "every branch and the commit at its tip"),),
    "branch create": (
        ("icectl branch create dev", "a branch at the tip of main"),
        ("icectl branch create fix v1.0", "a branch at the commit of tag v1.0"),
        (
            "icectl branch create found 9XJF5WGWQJ6TFGB3Q3Z0 --adopt",
            "a branch at a lost commit, whose file still exists",
        ),
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
def list_branches(context: CommandContext) -> None:
    """List the branches.

    Shows the newest commit of each.
    """
    listing = refs.list_branches(context.open_repository())
    if context.options.jsonl:
        context.emit_list("branches", listing.branches, lambda _branches: ())
    else:
        context.emit(listing, render_branches, paged=True)


@command()
def create(
    context: CommandContext,
    name: NewNameArgument,
    ref: DefaultRefArgument = None,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", help="REF is the id of a snapshot file that the repository does not list."
        ),
    ] = False,
) -> None:
    """Create a branch.

    The branch points to REF, by default to the tip of main.

    With --adopt, REF is the full id of a file in snapshots/ that the repo file does not list, for
    example a commit that was lost with a damaged repo file. The snapshot, its transaction log,
    manifests and chunks are checked first. Its parent is the one in a backup of the repo file,
    else the snapshot that its transaction log continues, else the first snapshot.
    """
    at = DEFAULT_REF if ref is None else ref
    if adopt:
        context.emit(_adopt(context, name, at), render_branch_change)
        return
    context.emit(refs.create_branch(context.open_repository(), name, at), render_branch_change)


def _adopt(context: CommandContext, name: str, ref: str) -> refs.BranchChange:
    from icectl.model.ids import SnapshotId
    from icectl.ops.adopt import adopt_snapshot
    from icectl.pipeline.progress import Progress

    try:
        snapshot_id = SnapshotId.parse(ref.upper())
    except ValueError:
        raise UsageError(
            f"--adopt needs the full id of a snapshot, but {ref!r} is not one",
            hint="its id is the name of a file in snapshots/",
        ) from None
    progress = Progress(lambda label, total, unit: context.progress(label, total, unit=unit))
    return adopt_snapshot(context.open_repository(), name, snapshot_id, progress)


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
