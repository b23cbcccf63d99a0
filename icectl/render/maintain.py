"""Render the maintenance of many repositories: a line for each, and a summary for a mail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icectl.ops.expire.report import Freed
from icectl.ops.gc.report import GcResult
from icectl.ops.maintain import RepositoryMaintenance
from icectl.render.blocks import Block
from icectl.render.text import format_count, format_duration, format_size, format_time_short
from icectl.render.validate import format_findings

INDENT = "    "
SHOWN = 10


def render_repository(done: RepositoryMaintenance) -> Iterator[Block]:
    """One line, and below it what needs attention."""
    verdict = ("done", "good") if done.exit_code == 0 else ("not done", "bad")
    parts = "; ".join(_describe_steps(done))
    if not (parts or done.exit_code or done.skipped_steps):
        parts = "nothing to do"
    took = format_duration(sum(done.seconds.values()))
    separator = ": " if parts else ""
    yield ((done.name, "branch"), ": ", verdict, f"{separator}{parts} ({took})")  # type: ignore[misc]
    yield from _render_attention(done)


def render_plan(plan: RepositoryMaintenance) -> Iterator[Block]:
    """What would be done, step by step."""
    yield ((plan.name, "branch"), f"  {plan.location}")
    steps = [f"{INDENT}would {step}" for step in _describe_plan(plan)]
    yield from steps
    attention = list(_render_attention(plan))
    yield from attention
    if not steps and not attention:
        yield f"{INDENT}nothing to do"


def _describe_plan(plan: RepositoryMaintenance) -> Iterator[str]:
    for branch in plan.deleted_branches:
        tip = format_time_short(branch.flushed_at)
        yield f"delete the branch {branch.name}, last commit {tip}"
    if plan.expire is not None:
        yield f"release {format_count(plan.expire.gone_snapshots, 'snapshot')}"
        for kind, names in (
            ("branch", plan.expire.deleted_branches),
            ("tag", plan.expire.deleted_tags),
        ):
            yield from (f"delete the expired {kind} {name}" for name in names)
    if plan.gc is not None:
        size = format_size(plan.gc.bytes_deleted)
        yield f"delete {format_count(plan.gc.num_objects, 'object')} ({size}) that are garbage now"
        if plan.expire is not None and plan.expire.gone_snapshots:
            yield _describe_freed(plan.expire.could_free)
        if plan.deleted_branches:
            yield "delete what only the deleted branches need, if it is old enough"
        if plan.gc.backups_deleted:
            size = format_size(plan.gc.backup_bytes_deleted)
            yield f"delete {format_count(plan.gc.backups_deleted, 'old backup')} ({size})"
    if plan.validate_level is not None and not _is_skipped(plan, "validate"):
        yield f"validate at level {plan.validate_level}"


def _is_skipped(plan: RepositoryMaintenance, step: str) -> bool:
    return any(one.step == step for one in plan.skipped_steps)


def _describe_freed(freed: Freed | None) -> str:
    if freed is None:
        return "delete more objects after the expiration"
    size = "" if freed.bytes is None else f", about {format_size(freed.bytes)},"
    objects = freed.snapshots + freed.manifests + (freed.chunks or 0)
    return f"delete at least {format_count(objects, 'more object')}{size} after the expiration"


def render_summary(all_: Sequence[RepositoryMaintenance]) -> Iterator[Block]:
    failed = [one for one in all_ if one.exit_code]
    verdict = "could be maintained" if any(one.dry_run for one in all_) else "done"
    of = format_count(len(all_), "repository", "repositories")
    yield f"{len(all_) - len(failed)} of {of} {verdict}"
    if failed:
        names = ", ".join(f"{one.name} (exit code {one.exit_code})" for one in failed)
        yield ((f"not {verdict.removeprefix('could be ')}: {names}", "bad"),)
    collected = [one.gc for one in all_ if one.gc is not None]
    size = sum(gc.bytes_deleted + gc.backup_bytes_deleted for gc in collected)
    count = sum(gc.num_objects + gc.backups_deleted for gc in collected)
    if count:
        verb = "would be deleted" if any(gc.dry_run for gc in collected) else "deleted"
        yield f"{format_count(count, 'object')} ({format_size(size)}) {verb} in total"


def _describe_steps(done: RepositoryMaintenance) -> Iterator[str]:
    if done.deleted_branches:
        yield f"{format_count(len(done.deleted_branches), 'branch', 'branches')} deleted"
    if done.expire is not None:
        yield f"{format_count(done.expire.gone_snapshots, 'snapshot')} released"
        names = (*done.expire.deleted_branches, *done.expire.deleted_tags)
        if names:
            yield f"{format_count(len(names), 'expired ref')} deleted"
    if done.gc is not None:
        yield from _describe_gc(done.gc)
    if done.validate is not None:
        verdict = "sound" if done.validate.ok else "problems found"
        found = format_findings(done.validate)
        yield f"{verdict} at level {done.validate.level}" + (f": {found}" if found else "")


def _describe_gc(gc: GcResult) -> Iterator[str]:
    yield f"{format_count(gc.num_objects, 'object')} ({format_size(gc.bytes_deleted)}) deleted"
    if gc.backups_deleted:
        size = format_size(gc.backup_bytes_deleted)
        yield f"{format_count(gc.backups_deleted, 'old backup')} ({size}) deleted"
    if gc.failures:
        yield f"{format_count(len(gc.failures), 'object')} could not be deleted"
    elif not gc.is_complete:
        yield "stopped at the time limit; the next run continues"


def _render_attention(done: RepositoryMaintenance) -> Iterator[Block]:
    if done.error is not None:
        yield (INDENT, (f"error: {done.error['message']}", "bad"))
        if done.error["hint"]:
            yield f"{INDENT}hint: {done.error['hint']}"
    # If the repository could not be opened, nobody expects any steps.
    is_closed = done.error is not None and done.error["step"] == "open"
    for step in () if is_closed else done.skipped_steps:
        yield (INDENT, (f"skipped {step.step}: {step.reason}", "warning"))
    if done.validate is None:
        return
    errors = [finding for finding in done.validate.findings if finding.severity == "error"]
    for finding in errors[:SHOWN]:
        yield f"{INDENT}{finding.code} {finding.object}: {finding.title}: {finding.detail}"
    if done.validate.errors > SHOWN:
        yield f"{INDENT}and {format_count(done.validate.errors - SHOWN, 'more error')}"
