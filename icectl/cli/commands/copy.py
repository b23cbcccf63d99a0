"""`icectl copy`: copy a repository to another place, or update a copy."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from icectl.cli.context import CommandContext
from icectl.cli.engines import EngineOption, SparkPlace
from icectl.cli.options import Age, DryRunOption, Flag, Time, command
from icectl.cli.values import parse_age
from icectl.errors import UsageError
from icectl.ops.copy.paths import normalize_path
from icectl.ops.copy.run import CopyOptions, copy_repository
from icectl.ops.copy.state import Selection
from icectl.pipeline.progress import Progress
from icectl.render.copy import render_copy

EXAMPLES = """
icectl copy ./repo s3://bucket/repo --dry-run  # the number and size of the objects to copy
icectl copy ./repo s3://bucket/repo --verify sizes  # run it again to update the copy
icectl copy s3://bucket/repo ./part --branch main --tag 'v*' --shallow 1
  # the newest version of main and of some tags
icectl copy s3://bucket/repo ./part --path /temperature  # one array of every branch and tag
"""
_SIZE = re.compile(r"(\d+(?:\.\d+)?) *([kMGT]?)(i?)B?", re.IGNORECASE)
_POWERS = ("", "k", "m", "g", "t")
Globs = Annotated[list[str], typer.Option(metavar="GLOB")]


@dataclass(frozen=True, slots=True)
class What:
    """The options that select what is copied."""

    ref: Annotated[Globs, "Copy only these branches and tags, and their history. Repeatable."] = ()  # type: ignore[assignment]
    branch: Annotated[Globs, "Copy only these branches. Repeatable."] = ()  # type: ignore[assignment]
    tag: Annotated[Globs, "Copy only these tags. Repeatable."] = ()  # type: ignore[assignment]
    shallow: Annotated[
        int | None,
        typer.Option(metavar="COUNT", min=1),
        "Copy only this many snapshots of each branch and tag.",
    ] = None
    since: Annotated[
        Time, "Copy only snapshots since this date, time or age (30d), and the newest of each ref."
    ] = None
    path: Annotated[
        list[str],
        typer.Option(metavar="PATH"),
        "Copy only these groups and arrays of the newest version of each branch and tag, without "
        "history. Repeatable.",
    ] = ()  # type: ignore[assignment]


@command(repository=False)
def copy(
    context: CommandContext,
    source: Annotated[str, typer.Argument(metavar="SOURCE"), "The repository to copy."],
    target: Annotated[str, typer.Argument(metavar="TARGET"), "Where to copy it."],
    dry_run: DryRunOption = False,
    force: Annotated[
        Flag, "Overwrite a target that others changed. Prints what that loses."
    ] = False,
    verify: Annotated[
        Literal["sizes", "bytes"] | None,
        typer.Option(metavar="sizes|bytes"),
        "Check all objects of the target before it is published: their sizes, or their bytes.",
    ] = None,
    source_option: Annotated[
        list[str],
        typer.Option(metavar="KEY=VALUE"),
        "A storage option of SOURCE, such as endpoint_url=http://127.0.0.1:9000. Repeatable.",
    ] = (),  # type: ignore[assignment]
    target_option: Annotated[
        list[str],
        typer.Option(metavar="KEY=VALUE"),
        "A storage option of TARGET. Repeatable.",
    ] = (),  # type: ignore[assignment]
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="COUNT", min=1),
        "The number of objects to read and write at once. Default: by the kind of storage.",
    ] = None,
    bandwidth_limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE"),
        "Copy at most this many bytes per second, such as 10MB.",
    ] = None,
    max_runtime: Annotated[
        Age, "Stop after this time (30m, 2h) with exit code 3. The next run continues."
    ] = None,
    engine: EngineOption = "auto",
    *,
    what: What,
    spark: SparkPlace,
) -> None:
    """Copy the repository to another place, or update a copy.

    Copies one state of the source, which may be changed by writers and garbage collections
    meanwhile: first the chunks, then manifests, transaction logs and snapshots, and finally the
    repo file, by a conditional write. Until then the target is not a repository, or is the one that
    it was before. A copy that was interrupted is continued by the same command.

    If the target is a copy already, only what is missing is copied, and its branches and tags are
    moved. Branches and tags that are not selected stay as they are. A target with
    commits, branches or tags that the source never had is refused (exit code 16).

    The storage settings in the configuration are not copied: they belong to the storage. Neither
    are backups of the repo file. The copy is online. References to virtual chunks are copied as
    they are.

    With --engine spark, the executors read manifests, list the target and copy chunks. They need
    icectl and its libraries, and use their own credentials.
    """
    if what.shallow is not None and what.since is not None:
        raise UsageError("--shallow and --since cannot be combined")
    deadline = time.monotonic() + parse_age(max_runtime) / 1e6 if max_runtime is not None else None
    if what.path and (what.shallow is not None or what.since is not None):
        raise UsageError("--path copies no history", hint="omit --shallow and --since")
    engines = spark.choose("local" if what.path and engine == "auto" else engine, context)
    if what.path and engines.is_asked_for:
        raise UsageError("--path cannot be combined with Spark")
    if bandwidth_limit is not None and engines.is_asked_for:
        raise UsageError("--bandwidth-limit cannot be combined with Spark")
    options = CopyOptions(
        Selection(
            (*what.ref, *what.branch),
            (*what.ref, *what.tag),
            what.shallow,
            context.parse_moment(what.since),
            tuple(map(normalize_path, what.path)),
        ),
        dry_run=dry_run,
        force=force,
        verify=verify,
        concurrency=concurrency,
        bytes_per_second=None if bandwidth_limit is None else parse_size(bandwidth_limit),
        choose_engine=engines.choose,
    )
    with engines:
        result = copy_repository(
            context.open_storage(source, source_option),
            context.open_storage(target, target_option),
            options,
            Progress(context.display.phase, deadline),
        )
    for note in result.notes:
        context.note(note)
    context.emit(result, render_copy)


def parse_size(text: str) -> int:
    """Return `10MB`, `512KiB` or `1000000` as bytes."""
    found = _SIZE.fullmatch(text)
    size = 0
    if found is not None:
        base = 1024 if found[3] else 1000
        size = int(float(found[1]) * base ** _POWERS.index(found[2].lower()))
    if not size:
        raise UsageError(f"{text!r} is not a size", hint="write 500kB, 10MB or 1GiB")
    return size
