"""`icectl branch` and `icectl tag`: list, create, move and delete refs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

from icectl.cli.context import CommandContext
from icectl.cli.options import (
    AtOpOption,
    BranchArgument,
    DefaultRefArgument,
    ExpectOption,
    Flag,
    NewNameArgument,
    RefArgument,
    TagArgument,
    YesOption,
    command,
)
from icectl.errors import UsageError
from icectl.ops import refs
from icectl.ops.refs import BranchChange, ListedRef, TagList
from icectl.render.blocks import Block, Column, Role, Table, time_column
from icectl.render.text import first_line
from icectl.repository.resolve import DEFAULT_REF

EXAMPLES = """
icectl branch list  # every branch and the commit at its tip
icectl branch create dev  # a branch at the tip of main
icectl branch create fix v1.0  # a branch at the commit of tag v1.0
icectl branch create found 9XJF5WGWQJ6TFGB3Q3Z0 --adopt
  # a branch at a lost commit, whose file still exists
icectl branch delete dev  # gc deletes the commits later
icectl branch delete dev --expect 4KGM3P2Q  # only if it has not moved
icectl branch reset main main~1  # undo the newest commit of main
icectl branch reset main 9XJF5WGW --expect 4KGM3P2Q  # only if it has not moved
icectl tag list  # every tag, and the names of deleted ones
icectl tag create v1.0  # tag the tip of main
icectl tag create v0.9 main~3  # tag an older commit
icectl tag delete v1.0  # the name can never be used again
"""


@command(jsonl=True)
def list_branches(context: CommandContext, at_op: AtOpOption = None) -> None:
    """List the branches.

    Shows the newest commit of each.
    """
    listing = refs.list_branches(context.open_repository(at_op))
    context.emit(
        listing,
        lambda _: [_render_refs("BRANCH", "branch", listing.branches)],
        lines="branches",
        paged=True,
    )


@command()
def create_branch(
    context: CommandContext,
    name: NewNameArgument,
    ref: DefaultRefArgument = DEFAULT_REF,
    adopt: Annotated[
        Flag, "REF is the id of a snapshot file that the repository does not list."
    ] = False,
) -> None:
    """Create a branch.

    The branch points to REF, by default to the tip of main.

    With --adopt, REF is the full id of a file in snapshots/ that the repo file does not list, for
    example a commit that was lost with a damaged repo file. The snapshot, its transaction log,
    manifests and chunks are checked first. Its parent is the one in a backup of the repo file,
    else the snapshot that its transaction log continues, else the first snapshot.
    """
    if adopt:
        change = _adopt(context, name, ref)
    else:
        change = refs.create_branch(context.open_repository(for_update=True), name, ref)
    context.emit(change, render_branch_change)


def _adopt(context: CommandContext, name: str, ref: str) -> refs.BranchChange:
    from icectl.model.ids import SnapshotId
    from icectl.ops.adopt import adopt_snapshot

    try:
        snapshot_id = SnapshotId.parse(ref.upper())
    except ValueError:
        raise UsageError(
            f"--adopt needs the full id of a snapshot, but {ref!r} is not one",
            hint="its id is the name of a file in snapshots/",
        ) from None
    return adopt_snapshot(context.open_repository(), name, snapshot_id, context.progress)


@command()
def delete_branch(
    context: CommandContext, branch: BranchArgument, expect: ExpectOption = None
) -> None:
    """Delete a branch.

    The branch main cannot be deleted.

    Only the name is deleted, without confirmation, as in git. The output shows the snapshot that
    the branch pointed to; to undo, create a branch there before gc deletes the snapshots that no
    other ref reaches. With --expect the branch is deleted only if it still points to that REF.
    """
    change = refs.delete_branch(context.open_repository(for_update=True), branch, expect)
    context.emit(change, render_branch_change)
    _note_undo(context, "branch create", change)


@command()
def reset_branch(
    context: CommandContext, branch: BranchArgument, ref: RefArgument, expect: ExpectOption = None
) -> None:
    """Move a branch to another commit.

    There is no confirmation. The output shows the snapshot that the branch pointed to; to undo,
    reset the branch to it before gc deletes the snapshots that no other ref reaches. With
    --expect the branch is moved only if it still points to that REF.
    """
    change = refs.reset_branch(context.open_repository(for_update=True), branch, ref, expect)
    context.emit(change, render_branch_change)
    if change.previous_snapshot_id != change.snapshot_id:
        _note_undo(context, "branch reset", change)


def _note_undo(context: CommandContext, command: str, change: BranchChange) -> None:
    line = context.command_line(command, change.branch, str(change.previous_snapshot_id))
    context.note(f"to undo: {line}")


@command(jsonl=True)
def list_tags(context: CommandContext, at_op: AtOpOption = None) -> None:
    """List the tags.

    Shows the commit of each, and the names of deleted tags.
    """
    listing = refs.list_tags(context.open_repository(at_op))
    context.emit(listing, render_tags, lines="tags", paged=True)


@command()
def create_tag(
    context: CommandContext, name: NewNameArgument, ref: DefaultRefArgument = DEFAULT_REF
) -> None:
    """Create a tag.

    The tag points to REF, by default to the tip of main, and never moves.
    """
    change = refs.create_tag(context.open_repository(for_update=True), name, ref)
    context.emit(change, lambda change: [f"tag {change.tag} created at {change.snapshot_id}"])


@command()
def delete_tag(context: CommandContext, tag: TagArgument, yes: YesOption = False) -> None:
    """Delete a tag permanently.

    Asks for confirmation on a terminal; scripts need no --yes. The output shows the snapshot of
    the tag, which is not deleted. The specification forbids reusing the name of a deleted tag:
    use another name to tag the same snapshot. `icectl undo --undelete-tag` brings the tag back.
    """
    repository = context.open_repository(for_update=True)
    if tag in repository.tags():
        where = f"tag {tag} of {repository.storage.location} at {repository.tags()[tag]}"
        question = f"Delete the {where}? Its name can never be used again."
        context.confirm(question, yes=yes or not context.is_interactive)
    change = refs.delete_tag(repository, tag)
    context.emit(change, lambda _: [f"tag {tag} deleted; it pointed at {change.snapshot_id}"])
    again = context.command_line("tag create", "NAME", str(change.snapshot_id))
    context.note(f"the name cannot be used again; to tag the same snapshot: {again}")


def render_tags(listing: TagList) -> Iterator[Block]:
    yield _render_refs("TAG", "tag", listing.tags)
    if listing.deleted_tags:
        names = ", ".join(listing.deleted_tags)
        yield ((f"Deleted, cannot be reused: {names}", "dim"),)


def render_branch_change(change: BranchChange) -> Iterator[Block]:
    name = change.branch
    if change.snapshot_id is None:
        yield f"branch {name} deleted; it pointed at {change.previous_snapshot_id}"
    elif change.previous_snapshot_id is None:
        yield f"branch {name} created at {change.snapshot_id}"
    elif change.previous_snapshot_id == change.snapshot_id:
        yield f"branch {name} was already at {change.snapshot_id}"
    else:
        yield f"branch {name} moved from {change.previous_snapshot_id} to {change.snapshot_id}"


def _render_refs(title: str, role: Role, refs: Iterable[ListedRef]) -> Table:
    columns = (
        Column(title, lambda ref: ref.name, role),
        Column("SNAPSHOT", lambda ref: ref.snapshot_id, "id"),
        time_column("DATE", "flushed_at"),
        Column("MESSAGE", _message, wraps=True),
    )
    return Table(columns, refs)


def _message(ref: ListedRef) -> str:
    return "(the snapshot cannot be read)" if ref.message is None else first_line(ref.message)
