"""`icectl report`: write a report of the repository as an HTML page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from icectl.cli.context import CommandContext
from icectl.cli.exit_codes import DONE, FINDINGS
from icectl.cli.options import STDOUT, AtOpOption, File, Time, command
from icectl.cli.policies import read_policy
from icectl.cli.values import parse_moment
from icectl.errors import RefusedError, UsageError
from icectl.ops.files import check_outside, check_writable, write_shared

if TYPE_CHECKING:
    from icectl.ops.report import Report

EXAMPLES = """
icectl report --html report.html  # history, storage, branches, tags and operations
icectl report --html report.html --older-than 30d --gc-older-than 7d
  # also what expire and gc would free
icectl report --html report.html --policy default --validate chunks -r era5
  # a policy from the config file, and the findings of validate
"""


@dataclass(frozen=True, slots=True)
class WrittenReport:
    path: str
    size_bytes: int
    location: str
    sections: tuple[str, ...]
    ok: bool | None
    """Of validate; None if it was not requested."""


@dataclass(frozen=True, slots=True)
class Content:
    """What the page shows beside the history, the storage and the operations."""

    older_than: Annotated[
        Time, "Show what `icectl expire --older-than TIME` would release, and gc then free."
    ] = None
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME"),
        "Show what `icectl expire --policy NAME` would release, and gc then free.",
    ] = None
    gc_older_than: Annotated[Time, "Show what `icectl gc --older-than TIME` would delete now."] = (
        None
    )
    validate: Annotated[
        Literal["refs", "metadata", "manifests", "chunks", "data"] | None,
        typer.Option(metavar="LEVEL"),
        "Check the repository as `icectl validate --level LEVEL` does, and show the findings.",
    ] = None
    at_op: AtOpOption = None

    @property
    def expire_words(self) -> tuple[str, ...]:
        """The options of `expire`."""
        given = {"--older-than": self.older_than, "--policy": self.policy}
        return tuple(
            word for name, value in given.items() if value is not None for word in (name, value)
        )


@command()
def report(
    context: CommandContext,
    html: Annotated[File, "Write the page to FILE, or to standard output if FILE is -."] = None,
    *,
    content: Content,
) -> int:
    """Write a report of the repository as an HTML page.

    The page has the history as a graph, the storage over time and by array, branch and tag, the
    operations, and on request what expire and gc would free, and the findings of validate. It is
    one file without references to the network. Never changes the repository.

    The numbers are those of `icectl stats`, `log`, `ops-log`, `expire`, `gc` and `validate`; the
    page contains their JSON documents. It therefore contains names, messages and metadata of the
    repository: share it only with people who may see them. Secrets in locations are hidden.

    Exit code 3 means that the page was written, but validate found errors or a part of the ops
    log cannot be read. Any other code means that no page was written.
    """
    if html is None:
        raise UsageError(
            "report requires --html", hint="write a page with `icectl report --html report.html`"
        )
    if html != STDOUT:
        check_writable("--html", html, is_replaced=True)
    elif not context.wants_text:
        raise UsageError("--html - and --json cannot be combined", hint="give --html a FILE")
    from icectl.render.operations import describe_beyond_reach
    from icectl.render.report.charts import load_vega
    from icectl.render.report.page import Call, documents, render_page

    load_vega()
    found = _gather(context, content, html)
    call = Call(
        context.now(),
        content.at_op,
        content.expire_words,
        content.gc_older_than,
        content.validate,
    )
    page = render_page(found, call)
    ok = None if found.validation is None else found.validation.ok
    if html == STDOUT:
        context.output.write_lines([page.rstrip("\n")])
    else:
        data = page.encode()
        write_shared(html, data)
        names = documents(found, call).items()
        sections = tuple(name for name, value in names if value is not None and name != "report")
        context.emit(
            WrittenReport(str(html), len(data), found.status.location, sections, ok),
            lambda written: [f"The report was written to {written.path}"],
        )
    end = found.operations_end
    is_cut = end is not None and not end.is_cleared
    if end is not None and is_cut:
        context.warn(describe_beyond_reach(end))
    return FINDINGS if is_cut or ok is False else DONE


def _gather(context: CommandContext, content: Content, html: Path) -> Report:
    from icectl.checks.rules import Level
    from icectl.ops.gc.safeguards import check_cutoff
    from icectl.ops.report import ReportOptions, gather
    from icectl.repository.ops_log import REPO_PATH

    if content.at_op is not None and (content.expire_words or content.gc_older_than):
        raise UsageError(
            "--at-op cannot be combined with what expire and gc would free",
            hint="omit --older-than, --policy and --gc-older-than, which need the newest state",
        )
    policy = read_policy(context, {"older_than": content.older_than}, content.policy)
    if policy is not None:
        policy.check()
    state = context.find_state(content.at_op) or REPO_PATH
    repository = context.open_repository(content.at_op)
    if html != STDOUT:
        check_outside(html, repository.storage.location)
    now, cutoff = context.now(), None
    if content.gc_older_than is not None:
        now = repository.storage.read_clock()
        cutoff = parse_moment(content.gc_older_than, now)
        try:
            check_cutoff(cutoff, now, allow_recent=False)
        except RefusedError as error:
            error.hint = "give --gc-older-than at least 1d"
            raise
    level = None if content.validate is None else Level[content.validate.upper()]
    options = ReportOptions(now, policy, cutoff, level, state)
    found = gather(repository, options, context.progress)
    if found.validation is None:
        return found
    notes = tuple(map(context.describe, found.validation.notes))
    return replace(found, validation=replace(found.validation, notes=notes))
