"""`icectl ops-log`, `undo` and `restore`: list operations and take them back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.exit_codes import DONE, FINDINGS
from icectl.cli.options import (
    OP_HELP,
    DryRunOption,
    Flag,
    NumberOption,
    OpArgument,
    SinceOption,
    UntilOption,
    YesOption,
    command,
)
from icectl.errors import UsageError
from icectl.ops.ops_log import (
    KINDS,
    ListedOperation,
    OpsLogBeyondReach,
    OpsLogOptions,
    read_filtered_ops_log,
    show_operation,
)
from icectl.ops.undo.run import (
    UndoOptions,
    UndoPlan,
    UndoResult,
    build_result,
    execute_undo,
    missing_error,
    parse_part,
    plan_restore,
    plan_undo,
)
from icectl.render.operations import (
    beyond_reach_document,
    describe_beyond_reach,
    operation_document,
    render_operation,
    render_ops_log,
    render_undo,
    undo_document,
    update_document,
)
from icectl.render.text import format_count
from icectl.repository.repository import Repository

EXAMPLES = """
icectl ops-log -n 20  # the last twenty operations
icectl ops-log --branch main --kind branch_reset  # resets of main
icectl ops-log --since 7d --jsonl  # the operations of a week, for scripts
icectl ops-log show @0  # what the last operation changed
icectl ops-log show @12 --json  # refs, snapshots and settings, for scripts
icectl undo  # take the last operation back
icectl undo @3 --dry-run  # show whether and how an older one can be taken back
icectl undo @1 --undelete-tag --yes  # bring a deleted tag back
icectl restore --to yesterday --dry-run  # the changes back to the state of yesterday
icectl restore --to @5 --only branch:main  # move main to where it was then
icectl restore --to @5 --only history  # released snapshots and parents, and no refs
"""


@command(jsonl=True)
def list_operations(
    context: CommandContext,
    number: NumberOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND"),
        f"Only operations of this kind. Repeatable. One of: {', '.join(KINDS)}.",
    ] = None,
    branch: Annotated[
        str | None, typer.Option(metavar="BRANCH"), "Only operations on this branch."
    ] = None,
) -> int:
    """List the operations on the repository.

    Lists all operations, newest first, each with its number: @N names it in other commands. Those
    that cannot be undone are marked as final; for others, `icectl undo --dry-run` shows whether
    later operations are in the way. Operations of one write, such as those of an undo, are undone
    together.

    The log continues in the backups of the repo info file. If an entry does not contain the
    target of a branch or tag, the adjacent backups provide it. A missing or damaged backup ends
    the log with a message and exit code 3; if all older backups were removed by age, the log just
    ends there. The command does not read snapshots, so it works even if they are damaged.
    """
    for name in kind or ():
        if name not in KINDS:
            raise UsageError(
                f"invalid value {name!r} for --kind", hint=f"use one of {', '.join(KINDS)}"
            )
    options = OpsLogOptions(
        number,
        context.parse_moment(since),
        context.parse_moment(until, last=True),
        kind or (),
        branch,
    )
    entries = read_filtered_ops_log(context.open_repository(), options, context.progress)
    end: OpsLogBeyondReach | None = None

    def readable() -> Iterator[ListedOperation]:
        nonlocal end
        for entry in entries:
            if isinstance(entry, OpsLogBeyondReach):
                end = entry
            else:
                yield entry

    if context.options.json:
        updates = [update_document(entry) for entry in readable()]
        context.emit_json({"updates": updates, "beyond_reach": beyond_reach_document(end)})
    elif context.options.jsonl:
        context.emit_lines(map(update_document, readable()))
    else:
        nothing = "no matching operations"
        context.emit_list("updates", readable(), render_ops_log, if_empty=nothing)
    if end is None:
        return DONE
    (context.note if end.is_cleared else context.warn)(describe_beyond_reach(end))
    return DONE if end.is_cleared else FINDINGS


@command()
def show_changes(context: CommandContext, operation: OpArgument) -> None:
    """Show what an operation changed.

    Compares the states before and after it: branches and tags, snapshots that were added,
    released or got another parent, configuration, metadata, feature flags and status. Operations
    that were written together, such as those of an undo, are shown as one.
    """
    found = show_operation(context.open_repository(), operation, context.parse_time)
    context.emit(found, render_operation, document=operation_document, paged=True)


@dataclass(frozen=True, slots=True)
class WayBack:
    """The options of both commands."""

    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PART"),
        "Change only this part: branch:NAME, tag:NAME, config, metadata, flags, status, or history "
        "(released snapshots and parents). Repeatable.",
    ] = None
    undelete_tag: Annotated[Flag, "Let deleted tags come back, at the snapshots that they had."] = (
        False
    )
    while_read_only: Annotated[Flag, "Also change a repository that is not online."] = False
    dry_run: DryRunOption = False
    yes: YesOption = False

    def parse(self) -> UndoOptions:
        return UndoOptions(
            parse_part(tuple(self.only or ())), self.undelete_tag, self.while_read_only
        )


@command()
def undo(
    context: CommandContext,
    operation: Annotated[
        str | None, typer.Argument(metavar="OP"), f"{OP_HELP} Default: the last operation."
    ] = None,
    *,
    way: WayBack,
) -> int:
    """Take an operation back.

    Reverts one operation on the newest state: a commit, an amend, a branch that was created,
    deleted or reset, a tag, an expiration, configuration, metadata, feature flags or status. If a
    later operation changed the same thing, the undo is refused (exit code 11). Everything that it
    brings back must still be there: what a garbage collection deleted is listed, and the undo is
    refused (16). A garbage collection cannot be undone.

    The change is one conditional write. The ops log records it, and it can be undone: a second
    `icectl undo` takes the first one back. Undoing a new tag deletes it, and its name can never be
    used again. A deleted tag comes back only with --undelete-tag.
    """
    repository = context.open_repository(for_update=not way.dry_run)
    plan = plan_undo(repository, operation, context.parse_time, way.parse(), context.progress)
    return _finish(context, repository, "Undo", plan, way)


@command()
def restore(
    context: CommandContext,
    to: Annotated[str, typer.Option(metavar="OP"), OP_HELP],
    *,
    way: WayBack,
) -> int:
    """Bring an earlier state of the repository back.

    Changes branches, tags, the list of snapshots and the settings to what they were after the
    operation, or only a part of it. Later operations stay in the ops log; the change is one more
    operation, and `icectl undo` takes it back. Commits made since then are released, and remain
    in the storage until a garbage collection.

    The rules of `icectl undo` for tags and for deleted objects apply.
    """
    repository = context.open_repository(for_update=not way.dry_run)
    plan = plan_restore(repository, to, context.parse_time, way.parse(), context.progress)
    return _finish(context, repository, "Restore the state after", plan, way)


def _finish(
    context: CommandContext, repository: Repository, what: str, plan: UndoPlan, way: WayBack
) -> int:
    """Show the plan, ask, and execute it."""

    def emit(result: UndoResult) -> None:
        context.emit(result, render_undo, document=undo_document, paged=result.dry_run)

    planned = build_result(plan, dry_run=True, missing=plan.needed.missing)
    if plan.needed.missing:
        emit(planned)
        raise missing_error(plan)
    if way.dry_run or plan.is_empty:
        emit(planned if way.dry_run else build_result(plan, dry_run=False, missing=()))
        return DONE
    if plan.needed.num_snapshots and not way.while_read_only:
        context.note(
            "a garbage collection that is running now may delete what comes back; if that is "
            f"possible, run `{context.command_line('status set', 'read-only')}`, wait until it "
            "ends, and use --while-read-only"
        )
    question = f"{what} @{plan.operation.number} in {context.location.url}?"
    context.confirm(question, yes=way.yes, plan=() if way.yes else render_undo(planned))
    result = execute_undo(repository, plan, way.parse(), context.progress)
    emit(result)
    if result.missing:
        count = format_count(len(result.missing), "object")
        context.warn(
            f"{count} that came back went missing meanwhile: a garbage collection is running. "
            f"Take the change back: {context.command_line('undo')}"
        )
        return FINDINGS
    return DONE
