"""`icectl expire`: release old snapshots, by a cutoff or by retention rules."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import Age, Count, DryRunOption, Flag, Globs, Time, YesOption, command
from icectl.cli.policies import read_policy
from icectl.ops.expire.execute import execute_expiration
from icectl.ops.expire.plan import plan_for
from icectl.ops.expire.policy import Policy, find_idle_globs
from icectl.ops.expire.report import build_result
from icectl.render.expire import render_expiration
from icectl.repository.open import open_repository

EXAMPLES = """
icectl expire --older-than 30d --dry-run  # the plan of the official expiration
icectl expire --keep-last 20 --keep-daily 30 --keep-monthly 12 --keep-tagged 'v*'
  # daily history for a month, monthly for a year, releases forever
icectl expire --policy default -r era5 --yes  # for cron, with a policy from the config file
"""


@dataclass(frozen=True, slots=True)
class Rules:
    """The options that are rules; a policy in the config file has the same names."""

    older_than: Annotated[
        Time,
        "Release only snapshots flushed before this date, time or age (30d) by the "
        "storage's clock. Without other rules, this is the official expiration.",
    ] = None
    keep_last: Annotated[Count, "Keep the newest snapshots."] = None
    keep_hourly: Annotated[Count, "Keep the newest of each of the last hours with a snapshot."] = (
        None
    )
    keep_daily: Annotated[Count, "The same for days."] = None
    keep_weekly: Annotated[Count, "The same for weeks (ISO)."] = None
    keep_monthly: Annotated[Count, "The same for months."] = None
    keep_yearly: Annotated[Count, "The same for years."] = None
    keep_within: Annotated[
        Age, "Keep snapshots younger than this, relative to the newest one of the branch."
    ] = None
    keep_tagged: Annotated[Globs, "Keep the snapshots of these tags. Repeatable."] = None
    branch: Annotated[
        Globs, "Apply the rules only to these branches; keep all others. Repeatable."
    ] = None
    protect: Annotated[Globs, "Exempt these branches and tags. Repeatable."] = None
    delete_expired_branches: Annotated[
        Flag, "Delete branches whose tip is expired, except main."
    ] = False
    delete_expired_tags: Annotated[Flag, "Delete tags that point to an expired snapshot."] = False


@command()
def expire(
    context: CommandContext,
    rules: Rules,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME"),
        "Use the rules [repositories.REPO.policies.NAME] of the config file.",
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all"), "Show every snapshot of a long plan, not only the newest ones."
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Release old snapshots from the history.

    Keeps every snapshot that any rule keeps, and the tips of branches and tags. Released snapshots
    are no longer part of the history; `icectl gc` deletes their files later. If the parent of
    a kept snapshot is released, its nearest kept ancestor becomes its parent; the snapshot records
    the transaction logs in between, so diffs remain correct.
    """
    retention = read_policy(context, asdict(rules), policy) or Policy()
    storage = context.open_storage()
    retention.check()
    render = partial(render_expiration, every=all_)
    repository = open_repository(storage, for_update=not dry_run)
    build = partial(build_result, repository, progress=context.progress)
    planned = plan_for(repository, retention, context.progress)
    for rule, glob in find_idle_globs(retention, planned.history.branches, planned.history.tags):
        kinds = {"branch": "branch", "keep_tagged": "tag"}.get(rule, "branch or tag")
        context.warn(f"--{rule.replace('_', '-')} {glob} does not match any {kinds}")
    if dry_run or planned.plan.is_empty:
        repository.check_newest()
        context.emit(build(planned, dry_run=dry_run), render, paged=True)
        return
    count = len(planned.plan.released)
    refs = len(planned.plan.deleted_branches) + len(planned.plan.deleted_tags)
    question = f"Release {count} of {len(planned.history.parents)} snapshots"
    question += f" and delete {refs} refs" if refs else ""
    plan = () if yes else render(build(planned, dry_run=True))
    context.confirm(f"{question} of {storage.location}?", yes=yes, plan=plan)
    done = execute_expiration(repository, retention, planned, context.progress)
    context.emit(build(done, dry_run=False), render)
