"""`icectl ops-log`: list the operations on the repository, and what one of them changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.exit_codes import DONE, FINDINGS
from icectl.cli.options import NumberOption, OpArgument, SinceOption, UntilOption, command
from icectl.errors import UsageError
from icectl.ops.ops_log import (
    KINDS,
    ListedOperation,
    OpsLogBeyondReach,
    OpsLogOptions,
    read_filtered_ops_log,
    show_operation,
)
from icectl.render.operations import (
    beyond_reach_document,
    describe_beyond_reach,
    operation_document,
    render_operation,
    render_ops_log,
    update_document,
)

EXAMPLES = """
icectl ops-log -n 20  # the last twenty operations
icectl ops-log --branch main --kind branch_reset  # resets of main
icectl ops-log --since 7d --jsonl  # the operations of a week, for scripts
icectl ops-log show @0  # what the last operation changed
icectl ops-log show @12 --json  # refs, snapshots and settings, for scripts
"""


@command(jsonl=True)
def list_operations(
    context: CommandContext,
    number: NumberOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    kind: Annotated[
        list[str],
        typer.Option(metavar="KIND"),
        f"Only operations of this kind. Repeatable. One of: {', '.join(KINDS)}.",
    ] = (),  # type: ignore[assignment]
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
    for name in kind:
        if name not in KINDS:
            raise UsageError(
                f"invalid value {name!r} for --kind", hint=f"use one of {', '.join(KINDS)}"
            )
    options = OpsLogOptions(
        number, context.parse_moment(since), context.parse_moment(until, last=True), kind, branch
    )
    entries = read_filtered_ops_log(context.open_repository(), options, context.progress)
    ends: list[OpsLogBeyondReach] = []

    def readable() -> Iterator[ListedOperation]:
        for entry in entries:
            if isinstance(entry, OpsLogBeyondReach):
                ends.append(entry)
            else:
                yield entry

    if context.options.json:
        updates = [update_document(entry) for entry in readable()]
        end = beyond_reach_document(ends[0] if ends else None)
        context.emit_json({"updates": updates, "beyond_reach": end})
    elif context.options.jsonl:
        context.emit_lines(map(update_document, readable()))
    else:
        nothing = "no matching operations"
        context.emit_list("updates", readable(), render_ops_log, if_empty=nothing)
    for reached in ends:
        tell = context.note if reached.is_cleared else context.warn
        tell(describe_beyond_reach(reached))
    return DONE if all(reached.is_cleared for reached in ends) else FINDINGS


@command()
def show_changes(context: CommandContext, operation: OpArgument) -> None:
    """Show what an operation changed.

    Compares the states before and after it: branches and tags, snapshots that were added,
    released or got another parent, configuration, metadata, feature flags and status. Operations
    that were written together, such as those of an undo, are shown as one.
    """
    found = show_operation(context.open_repository(), operation, context.parse_time)
    if context.wants_text:
        context.output.write(render_operation(found), paged=True)
    else:
        context.emit_json(operation_document(found))
