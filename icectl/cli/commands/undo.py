"""`icectl undo` and `icectl restore`: take operations back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.exit_codes import DONE, FINDINGS
from icectl.cli.options import OP_HELP, DryRunOption, Flag, YesOption, command
from icectl.ops.undo.execute import UndoResult, build_result, execute_undo, missing_error
from icectl.ops.undo.plan import UndoOptions, UndoPlan, parse_part, plan_restore, plan_undo
from icectl.render.operations import render_undo, undo_document
from icectl.render.text import format_count
from icectl.repository.repository import Repository

EXAMPLES = """
icectl undo  # take the last operation back
icectl undo @3 --dry-run  # show whether and how an older one can be taken back
icectl undo @1 --undelete-tag --yes  # bring a deleted tag back
icectl restore --to yesterday --dry-run  # the changes back to the state of yesterday
icectl restore --to @5 --only branch:main  # move main to where it was then
icectl restore --to @5 --only history  # released snapshots and parents, and no refs
"""


@dataclass(frozen=True, slots=True)
class WayBack:
    """The options of both commands."""

    only: Annotated[
        list[str],
        typer.Option(metavar="PART"),
        "Change only this part: branch:NAME, tag:NAME, config, metadata, flags, status, or history "
        "(released snapshots and parents). Repeatable.",
    ] = ()  # type: ignore[assignment]
    undelete_tag: Annotated[Flag, "Let deleted tags come back, at the snapshots that they had."] = (
        False
    )
    while_read_only: Annotated[Flag, "Also change a repository that is not online."] = False
    dry_run: DryRunOption = False
    yes: YesOption = False

    def parse(self) -> UndoOptions:

        return UndoOptions(parse_part(tuple(self.only)), self.undelete_tag, self.while_read_only)


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
    deleted or reset, a tag, an expiration, configuration, metadata, feature flags or status. If
    later operations changed the same, the undo is refused (exit code 11). Everything that it
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
    planned = build_result(plan, dry_run=True, missing=plan.needed.missing)
    if plan.needed.missing:
        _emit(context, planned)
        raise missing_error(plan)
    if way.dry_run or plan.is_empty:
        _emit(context, planned if way.dry_run else build_result(plan, dry_run=False, missing=()))
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
    _emit(context, result)
    if result.missing:
        count = format_count(len(result.missing), "object")
        context.warn(
            f"{count} that came back went missing meanwhile: a garbage collection is running. "
            f"Take the change back: {context.command_line('undo')}"
        )
        return FINDINGS
    return DONE


def _emit(context: CommandContext, result: UndoResult) -> None:

    if context.wants_text:
        context.output.write(render_undo(result), paged=result.dry_run)
    else:
        context.emit_json(undo_document(result))
