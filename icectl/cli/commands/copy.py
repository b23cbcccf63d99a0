"""`icectl copy`: copy a repository to another place, or update a copy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import typer

from icectl.cli.context import CommandContext
from icectl.cli.engines import EngineOption, SparkPlace
from icectl.cli.options import (
    Age,
    Count,
    DryRunOption,
    Flag,
    Globs,
    Pairs,
    Time,
    check_exclusive,
    command,
)
from icectl.errors import UsageError
from icectl.ops.copy.paths import normalize_path
from icectl.ops.copy.run import CopyOptions, copy_repository
from icectl.ops.copy.state import Selection
from icectl.pipeline.sampling import parse_size
from icectl.render.copy import render_copy

EXAMPLES = """
icectl copy ./repo s3://bucket/repo --dry-run  # the number and size of the objects to copy
icectl copy ./repo s3://bucket/repo --verify sizes  # run it again to update the copy
icectl copy s3://bucket/repo ./part --branch main --tag 'v*' --shallow 1
  # the newest version of main and of some tags
icectl copy s3://bucket/repo ./part --path /temperature  # one array of every branch and tag
"""


@dataclass(frozen=True, slots=True)
class What:
    """The options that select what is copied."""

    ref: Annotated[Globs, "Copy only these branches and tags, and their history. Repeatable."] = (
        None
    )
    branch: Annotated[Globs, "Copy only these branches. Repeatable."] = None
    tag: Annotated[Globs, "Copy only these tags. Repeatable."] = None
    shallow: Annotated[Count, "Copy only this many snapshots of each branch and tag."] = None
    since: Annotated[
        Time, "Copy only snapshots since this date, time or age (30d), and the newest of each ref."
    ] = None
    path: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH"),
        "Copy only these groups and arrays of the newest version of each branch and tag, without "
        "history. Repeatable.",
    ] = None

    def parse(self, context: CommandContext) -> Selection:
        check_exclusive({"--shallow": self.shallow, "--since": self.since})
        if self.path and (self.shallow is not None or self.since is not None):
            raise UsageError("--path copies no history", hint="omit --shallow and --since")
        if "" in (self.path or ()):
            raise UsageError("--path is empty", hint="write --path / for all groups and arrays")
        refs = self.ref or ()
        return Selection(
            (*refs, *(self.branch or ())),
            (*refs, *(self.tag or ())),
            self.shallow,
            context.parse_moment(self.since),
            tuple(map(normalize_path, self.path or ())),
        )


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
        Pairs, "A storage option of SOURCE, such as endpoint_url=http://127.0.0.1:9000. Repeatable."
    ] = None,
    target_option: Annotated[Pairs, "A storage option of TARGET. Repeatable."] = None,
    concurrency: Annotated[
        Count, "The number of objects to read and write at once. Default: by the kind of storage."
    ] = None,
    bandwidth_limit: Annotated[
        int | None,
        typer.Option(metavar="SIZE", parser=parse_size),
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
    selection = what.parse(context)
    progress = context.progress_within(max_runtime)
    engines = spark.choose("local" if what.path and engine == "auto" else engine, context)
    check_exclusive({"--path": what.path, "Spark": engines.is_asked_for})
    options = CopyOptions(
        selection,
        dry_run=dry_run,
        force=force,
        verify=verify,
        concurrency=concurrency,
        bytes_per_second=bandwidth_limit,
        choose_engine=engines.choose,
    )
    context.storage_option_name = "--source-option or --target-option"
    storages = (
        context.open_storage(source, source_option or ()),
        context.open_storage(target, target_option or ()),
    )
    # From here on, commands in hints are for the source; those for the target name it.
    context.options = replace(context.options, repo=source, storage_option=source_option)
    with engines:
        result = copy_repository(*storages, options, progress)
    for note in result.notes:
        context.note(note)
    context.emit(result, render_copy)
