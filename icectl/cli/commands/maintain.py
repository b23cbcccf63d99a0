"""`icectl maintain`: the nightly maintenance of many repositories."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from icectl.cli import exit_codes
from icectl.cli.config_file import malformed
from icectl.cli.context import CommandContext
from icectl.cli.locations import looks_like_location
from icectl.cli.maintenance_policy import MaintenanceTable
from icectl.cli.maintenance_run import MaintenanceRun
from icectl.cli.options import STDOUT, Age, DryRunOption, File, YesOption, command
from icectl.cli.values import parse_age
from icectl.errors import IcectlError, UsageError
from icectl.ops.files import check_outside, check_writable, write_shared
from icectl.ops.maintain import RepositoryMaintenance, summarize_metrics
from icectl.render.blocks import Block
from icectl.render.maintain import render_plan, render_repository, render_summary
from icectl.render.metrics import render_metrics
from icectl.render.text import format_count

EXAMPLES = """
icectl maintain --all --dry-run  # show what the next run would do
icectl maintain --all --yes --quiet  # for cron
icectl maintain weather 'lab-*' --jobs 4 --max-runtime 3h --yes  # some of them, four at a time
"""


@command(repository=False, jsonl=True)
def maintain(
    context: CommandContext,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="REMOTE"),
        "The names of repositories in the config file, or globs.",
    ] = None,
    all_: Annotated[
        bool,
        typer.Option("--all"),
        "Maintain every repository with a maintenance section in the config file.",
    ] = False,
    jobs: Annotated[
        int, typer.Option(metavar="COUNT", min=1, max=64), "Maintain this many at the same time."
    ] = 1,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    max_runtime: Annotated[
        Age,
        "Stop all work after this time (30m, 2h) with exit code 3. The next run continues.",
    ] = None,
    wait: Annotated[
        Age, "Wait up to this long for another run that maintains the same repository."
    ] = None,
    metrics: Annotated[
        File,
        "Write metrics of the repositories and of this run to FILE, like `icectl metrics "
        "--textfile`.",
    ] = None,
) -> int:
    """Maintain repositories as the config file says.

    For each repository, [repositories.NAME.maintenance] in the config file says what to do. The
    steps are, in this order: delete old branches, expire, gc with trimming of backups, validate.
    Each is the command of that name, with its safeguards. A failed step skips the later ones that
    change the repository, but not the validation; other repositories are not affected. A
    repository that is read-only or offline is only validated.

    Exit code 0 means that everything is done, 3 that some repositories are not done or have
    findings. If none is done, it is the highest code of any of them.
    """
    tables = [
        MaintenanceTable(context.config, name, values)
        for name, values in _choose(context, names or (), all_).items()
    ]
    if metrics is not None:
        if dry_run:
            raise UsageError("--metrics cannot be combined with --dry-run", hint="omit one of them")
        _check_metrics_file(context, tables, metrics)
    limits = (_seconds(max_runtime), _seconds(wait) or 0.0)
    run = MaintenanceRun(context, tables, jobs, *limits, measures=metrics is not None)
    for table in tables:  # a mistake in any policy is found before anything is done
        table.policy_at(context.now(), context.now())
    if not (dry_run or yes):
        _confirm(context, run)
    lost: list[IcectlError] = []

    def show(one: RepositoryMaintenance) -> None:
        """If the disk of the log is full, the other repositories are maintained all the same."""
        try:
            _show(context, one)
        except IcectlError as error:
            lost.append(error)

    done = run.run(dry_run=dry_run, show=show)
    if metrics is not None:
        try:
            of_run = [
                (one.name, run.measured.get(one.name), summarize_metrics(one)) for one in done
            ]
            write_shared(metrics, render_metrics(of_run).encode(), 0o644)
        except IcectlError as error:  # what was done is reported all the same
            lost.append(error)
    if context.options.json:
        context.emit_json({"repositories": done})
    elif context.wants_text and len(done) > 1:
        context.output.write(render_summary(done))
    if lost:
        raise lost[0]
    return combined_exit_code([one.exit_code for one in done])


def _confirm(context: CommandContext, run: MaintenanceRun) -> None:
    """Show the plan for all repositories and ask once; without a terminal, plan nothing."""
    plan: list[Block] = []
    if context.is_interactive:
        planned = run.run(dry_run=True, show=lambda _plan: None)
        if any(one.exit_code == exit_codes.INTERRUPTED for one in planned):
            raise KeyboardInterrupt
        plan += [block for one in planned for block in render_plan(one)]
    count = format_count(len(run.tables), "repository", "repositories")
    context.confirm(f"Maintain {count} like this?", yes=False, plan=plan)


def combined_exit_code(codes: Sequence[int]) -> int:
    """The exit code for all repositories; a bug or Ctrl-C is never hidden by success."""
    for code in (exit_codes.BUG, exit_codes.INTERRUPTED):
        if code in codes:
            return code
    is_partly_done = any(codes) and exit_codes.DONE in codes
    return exit_codes.FINDINGS if is_partly_done else max(codes)


def _show(context: CommandContext, done: RepositoryMaintenance) -> None:
    if context.options.jsonl:
        context.emit_lines([done])
    elif context.wants_text:
        context.output.write(render_plan(done) if done.dry_run else render_repository(done))


def _choose(context: CommandContext, names: Sequence[str], all_: bool) -> dict[str, dict[str, Any]]:
    """The maintenance of each chosen repository, in the order of the config file."""
    config = context.config
    known = {name: config.maintenance(name) for name in config.repositories}
    hint = f"add [repositories.NAME.maintenance] to {config.path}; see man icectl-maintain"
    if all_ and names:
        raise UsageError("--all cannot be combined with names", hint="give one of them")
    if not (all_ or names):
        raise UsageError("no repository was chosen", hint="give names or globs, or --all")
    for name in names:
        if not any(map(partial(_matches, glob=name), known)):
            close = get_close_matches(name, known)
            raise UsageError(
                f"no repository named {name!r} in {config.path}",
                hint=f"did you mean {close[0]}?" if close else "list them: icectl remote list",
            )
        if name in known and known[name] is None:
            raise UsageError(f"the repository {name} has no maintenance section", hint=hint)
    chosen = {
        name: values
        for name, values in known.items()
        if values is not None and (all_ or any(_matches(name, glob) for glob in names))
    }
    for name in chosen:
        if not name or looks_like_location(name):
            raise malformed(
                config.path, f"repositories.{name}: a name cannot be empty, a path or a URL"
            )
    if not chosen:
        raise UsageError("none of the repositories has a maintenance section", hint=hint)
    return chosen


def _matches(name: str, glob: str) -> bool:
    return name == glob or fnmatchcase(name, glob)


def _check_metrics_file(
    context: CommandContext, tables: Sequence[MaintenanceTable], file: Path
) -> None:
    """Raise `UsageError` before the work begins if the file could not be written after it."""
    if file == STDOUT:
        raise UsageError("--metrics cannot write to standard output", hint="give it a FILE")
    check_writable("--metrics", file, is_replaced=True)
    for table in tables:
        try:
            location = context.for_repository(table.repository).open_storage().location
        except IcectlError:
            continue  # the result of this repository reports it
        check_outside(file, location)


def _seconds(age: str | None) -> float | None:
    return None if age is None else parse_age(age) / 1e6
