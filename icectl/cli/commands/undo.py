"""`icectl undo` and `icectl restore`: take operations back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.exit_codes import DONE, FINDINGS
from icectl.cli.options import OP_HELP, DryRunOption, YesOption, command

if TYPE_CHECKING:
    from icectl.ops.undo.execute import UndoResult
    from icectl.ops.undo.plan import UndoOptions, UndoPlan
    from icectl.pipeline.progress import Progress

EXAMPLES = {
    "undo": (
        ("icectl undo", "take the last operation back"),
        ("icectl undo @3 --dry-run", "show whether and how an older one can be taken back"),
        ("icectl undo @1 --undelete-tag --yes", "bring a deleted tag back"),
    ),
    "restore": (
        ("icectl restore --to yesterday --dry-run", "the changes back to the state of yesterday"),
        ("icectl restore --to @5 --only branch:main", "move main to where it was then"),
        ("icectl restore --to @5 --only history", "released snapshots and parents, and no refs"),
    ),
}
_ONLY_HELP = (
    "Change only this part: branch:NAME, tag:NAME, config, metadata, flags, status, or history "
    "(released snapshots and parents). Repeatable."
)
OnlyOption = Annotated[list[str], typer.Option("--only", metavar="PART", help=_ONLY_HELP)]
UndeleteTagOption = Annotated[
    bool,
    typer.Option(
        "--undelete-tag", help="Let deleted tags come back, at the snapshots that they had."
    ),
]
WhileReadOnlyOption = Annotated[
    bool,
    typer.Option("--while-read-only", help="Also change a repository that is not online."),
]


@command()
def undo(
    context: CommandContext,
    operation: Annotated[
        str | None,
        typer.Argument(metavar="OP", help=f"{OP_HELP} Default: the last operation."),
    ] = None,
    only: OnlyOption = (),  # type: ignore[assignment]
    undelete_tag: UndeleteTagOption = False,
    while_read_only: WhileReadOnlyOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
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
    from icectl.ops.undo.plan import plan_undo

    options = _parse_options(only, undelete_tag, while_read_only)
    progress = _progress(context)
    repository = context.open_repository()
    plan = plan_undo(repository, operation, context.parse_time, options, progress)
    return _finish(context, "Undo", plan, options, progress, dry_run=dry_run, yes=yes)


@command()
def restore(
    context: CommandContext,
    to: Annotated[str, typer.Option("--to", metavar="OP", help=OP_HELP)],
    only: OnlyOption = (),  # type: ignore[assignment]
    undelete_tag: UndeleteTagOption = False,
    while_read_only: WhileReadOnlyOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> int:
    """Bring an earlier state of the repository back.

    Changes branches, tags, the list of snapshots and the settings to what they were after the
    operation, or only a part of it. Later operations stay in the ops log; the change is one more
    operation, and `icectl undo` takes it back. Commits made since then are released, and remain
    in the storage until a garbage collection.

    The rules of `icectl undo` for tags and for deleted objects apply.
    """
    from icectl.ops.undo.plan import plan_restore

    options = _parse_options(only, undelete_tag, while_read_only)
    progress = _progress(context)
    repository = context.open_repository()
    plan = plan_restore(repository, to, context.parse_time, options, progress)
    return _finish(
        context, "Restore the state after", plan, options, progress, dry_run=dry_run, yes=yes
    )


def _parse_options(only: list[str], undelete_tags: bool, while_read_only: bool) -> UndoOptions:
    from icectl.ops.undo.plan import UndoOptions, parse_part

    return UndoOptions(parse_part(tuple(only)), undelete_tags, while_read_only)


def _progress(context: CommandContext) -> Progress:
    from icectl.pipeline.progress import Progress

    return Progress(lambda label, total, unit: context.progress(label, total, unit=unit))


def _finish(
    context: CommandContext,
    what: str,
    plan: UndoPlan,
    options: UndoOptions,
    progress: Progress,
    *,
    dry_run: bool,
    yes: bool,
) -> int:
    """Show the plan, ask, and execute it."""
    from icectl.ops.undo.execute import build_result, execute_undo, missing_error
    from icectl.render.undo import render_undo

    planned = build_result(plan, dry_run=True, missing=plan.needed.missing)
    if plan.needed.missing:
        _emit(context, planned)
        raise missing_error(plan)
    if dry_run or plan.is_empty:
        _emit(context, planned if dry_run else build_result(plan, dry_run=False, missing=()))
        return DONE
    if plan.needed.num_snapshots and not options.while_read_only:
        context.note(
            "a garbage collection that is running now may delete what comes back; if that is "
            f"possible, run `{context.command_line('status set', 'read-only')}`, wait until it "
            "ends, and use --while-read-only"
        )
    question = f"{what} @{plan.operation.number} in {context.location.url}?"
    context.confirm(question, yes=yes, plan=() if yes else render_undo(planned))
    storage = context.open_storage()
    result = execute_undo(storage, plan, options, progress)
    _emit(context, result)
    if result.missing:
        context.warn(
            f"{len(result.missing):,} objects that came back went missing meanwhile: a garbage "
            f"collection is running. Take the change back: {context.command_line('undo')}"
        )
        return FINDINGS
    return DONE


def _emit(context: CommandContext, result: UndoResult) -> None:
    from icectl.render.undo import render_undo, undo_document

    if context.wants_text:
        context.emit(result, render_undo, paged=result.dry_run)
    else:
        context.emit(undo_document(result), lambda _document: ())
