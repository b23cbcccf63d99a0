"""`icectl gc`: delete unreferenced objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from icectl.cli import exit_codes
from icectl.cli.context import CommandContext
from icectl.cli.engines import EngineOption, SparkPlace
from icectl.cli.options import Age, DryRunOption, File, Flag, Time, YesOption, command
from icectl.cli.values import parse_moment
from icectl.errors import UsageError
from icectl.ops.files import check_writable
from icectl.ops.gc.report import GcResult, finished, summarize
from icectl.ops.gc.run import GcOptions, PlannedRun, collect_garbage, plan_run
from icectl.ops.gc.safeguards import MaxDelete, check_cutoff, read_known_missing
from icectl.ops.gc.saved_plan import SavedPlan, check_format, read_plan, write_plan
from icectl.pipeline.objects import ObjectKind
from icectl.render.gc import render_gc, render_notes
from icectl.render.json import to_json
from icectl.render.text import format_count, format_size
from icectl.repository.open import open_repository

EXAMPLES = """
icectl gc --older-than 7d --dry-run  # show the number and size of objects to delete
icectl gc --older-than 7d --yes --max-delete 20%  # for cron
icectl gc --older-than 7d --dry-run --plan gc.jsonl  # save the plan for review
icectl gc --apply gc.jsonl  # delete the objects in that plan that are still garbage
icectl gc --older-than 7d --yes --engine spark --spark-master spark://host:7077
  # compare and delete chunks on a cluster
"""
KINDS = ("snapshots", "transaction_logs", "manifests", "chunks")


@command(jsonl=True)
def collect(
    context: CommandContext,
    older_than: Annotated[
        Time, "Delete only objects older than this age (7d, 12h) or date, by the storage's clock."
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="KINDS"),
        f"Delete only these kinds, separated by commas: {', '.join(KINDS)}. Repeatable.",
    ] = None,
    plan: Annotated[
        File,
        "Save the plan for the kinds of --only: as Parquet if FILE ends in .parquet, "
        "otherwise as JSON Lines.",
    ] = None,
    apply: Annotated[
        File,
        "Delete the objects in this saved plan that are still garbage. --older-than "
        "overrides the time of the plan.",
    ] = None,
    max_delete: Annotated[
        MaxDelete | None,
        typer.Option(metavar="20%|N", parser=MaxDelete.parse),
        "Refuse to delete more than this share (20%) or number of all objects.",
    ] = None,
    allow_recent: Annotated[
        Flag, "Allow a time less than 24 hours ago. Only safe while nobody writes."
    ] = False,
    known_missing: Annotated[
        File,
        "Accept these missing objects: the list that `icectl validate` writes, or one "
        "path per line.",
    ] = None,
    overwritten_older_than: Annotated[
        Time,
        "Also delete older backups of the repo file in overwritten/ that the ops log "
        "does not need.",
    ] = None,
    truncate_ops_log: Annotated[
        Flag,
        "With --overwritten-older-than: truncate the ops log at that time, so that "
        "backups it needs can be deleted, too.",
    ] = False,
    abandon_history: Annotated[
        list[str] | None,
        typer.Option(metavar="BACKUP"),
        "Abandon the line of history that ends in this backup and is not part of the "
        "repo file: delete what only it lists, and its backups. Repeatable.",
    ] = None,
    max_runtime: Annotated[
        Age,
        "Stop after this time (30m, 2h) with exit code 3. The next run plans again and "
        "continues to delete.",
    ] = None,
    engine: EngineOption = "auto",
    *,
    spark: SparkPlace,
) -> int | None:
    """Delete unreferenced objects.

    Keeps everything reachable from a branch or tag, regardless of age, and everything created
    after --older-than. Deletes the rest: snapshots that no ref reaches, and transaction logs,
    manifests and chunks that no kept snapshot needs. The snapshots are first removed from the
    repo file in one conditional update; only then files are deleted.

    Reads and cross-checks everything that is kept before the first delete. If anything is
    damaged, missing or unexplained, gc stops with exit code 13, and for files of a newer format
    with 15, and deletes nothing. It refuses a repository that is not online, even with --dry-run.
    It can be interrupted at any time; the next run continues. Uncommitted work of a writer looks
    like garbage, so --older-than must be longer than any writer takes to commit.

    With --engine spark, the executors read manifests and list, compare and delete chunks. They
    need icectl and its libraries, and use their own credentials. To use spark-submit, write a
    script that calls icectl.cli.main.main().
    """
    kinds = _parse_kinds(only or ())
    progress = context.progress_within(max_runtime)
    saved = None if apply is None else read_plan(apply)
    if plan is not None:
        check_format(plan)
        check_writable("--plan", plan)
    if truncate_ops_log and overwritten_older_than is None:
        raise UsageError("--truncate-ops-log requires --overwritten-older-than")
    engines = spark.choose(engine, context)
    storage = context.open_storage()
    found = open_repository(storage, with_clock=True)
    now = storage.read_clock()
    cutoff = _cutoff(older_than, saved, now)
    check_cutoff(cutoff, now, allow_recent=allow_recent)
    options = GcOptions(
        cutoff=cutoff,
        only=kinds,
        max_delete=max_delete,
        known_missing=frozenset() if known_missing is None else read_known_missing(known_missing),
        saved=saved,
        backups_older_than=(
            None if overwritten_older_than is None else parse_moment(overwritten_older_than, now)
        ),
        truncate_ops_log=truncate_ops_log,
        abandon_history=tuple(abandon_history or ()),
        choose_engine=engines.choose,
        lists_chunks_early=not engines.is_asked_for,
    )

    def finish_plan(run: PlannedRun) -> GcResult:
        # Before the first delete: afterwards the cluster may no longer be available.
        planned = summarize(run, kinds, now, None)
        if plan is not None:
            write_plan(run.plan, kinds, plan)
            context.note(f"the plan was saved to {plan}")
        if context.options.jsonl:
            context.emit_lines([{"event": "planned", **to_json(planned)}])
        return planned

    with engines:
        if dry_run:
            result = finish_plan(plan_run(storage, options, progress, found))
        else:
            asked = False
            planned: GcResult

            def approve(run: PlannedRun) -> None:
                nonlocal asked, planned
                planned = finish_plan(run)
                question = _question(run, kinds, storage.location)
                if question is not None:
                    # There may be more garbage than in the plan that the user confirmed.
                    again = "the repository was changed by others, so this is a new plan: "
                    # Rendered as a dry run, because nothing is deleted yet.
                    plan_blocks = render_gc(replace(planned, dry_run=True))
                    context.confirm((again if asked else "") + question, yes=yes, plan=plan_blocks)
                    asked = True

            _, deleted = collect_garbage(storage, options, approve, progress, found)
            result = finished(planned, deleted)
    for note in render_notes(result):
        context.warn(note)
    if context.options.jsonl:
        context.emit_lines([{"event": "finished", **to_json(result)}])
    else:
        context.emit(result, render_gc)
    return None if result.is_complete else exit_codes.FINDINGS


def _question(run: PlannedRun, kinds: frozenset[ObjectKind], location: str) -> str | None:
    """Return the question to confirm, or None if there is nothing to do."""
    chosen = [garbage for kind, garbage in run.plan.garbage.items() if kind in kinds]
    count, size = sum(map(len, chosen)), sum(garbage.bytes for garbage in chosen)
    if run.backups is not None:
        count, size = count + len(run.backups.garbage), size + run.backups.num_bytes
    if count:
        what = f"{format_count(count, 'object')} ({format_size(size)})"
        return f"Permanently delete {what} from {location}?"
    released = len(run.plan.dropped_snapshots)
    if released:
        return f"Remove {format_count(released, 'snapshot')} from the repo file of {location}?"
    return None


def _cutoff(older_than: str | None, saved: SavedPlan | None, now: int) -> int:
    if older_than is not None:
        return parse_moment(older_than, now)
    if saved is not None:
        if saved.cutoff > now:
            raise UsageError("the cutoff time of the plan is in the future")
        return saved.cutoff
    raise UsageError(
        "gc requires --older-than", hint="start with `icectl gc --older-than 7d --dry-run`"
    )


def _parse_kinds(texts: Sequence[str]) -> frozenset[ObjectKind]:
    if not texts:
        return frozenset(ObjectKind)
    by_name = {kind.plural: kind for kind in ObjectKind}
    names = [name.strip().replace("-", "_") for name in ",".join(texts).split(",")]
    for name in names:
        if name not in by_name:
            raise UsageError(
                f"invalid value {name!r} for --only", hint=f"use one of {', '.join(KINDS)}"
            )
    return frozenset(by_name[name] for name in names)
