"""`icectl init`: create a new repository."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.hints import shell_argument
from icectl.cli.options import File, Pairs, command
from icectl.cli.values import parse_pairs
from icectl.errors import FormatError, RefusedError, UsageError
from icectl.ops.config_keys import check_config, check_value, set_key
from icectl.ops.settings import create_repository

EXAMPLES = """
icectl init ./repository  # a repository in a new or empty directory
icectl init s3://bucket/prefix --metadata owner=ocean-team  # with metadata
icectl init ./old --spec-version 1  # for clients that cannot read version 2
icectl init ./r --config inline_chunk_threshold_bytes=1024  # with configuration
"""


@command()
def init(
    context: CommandContext,
    location: Annotated[
        str | None,
        typer.Argument(metavar="LOCATION"),
        "A path, a URL or a name from the config file.",
    ] = None,
    spec_version: Annotated[
        int, typer.Option(metavar="VERSION"), "Version of the format: 1 or 2."
    ] = 2,
    config: Annotated[
        Pairs, "Set a configuration value, such as compression.level=5. Repeatable."
    ] = None,
    config_file: Annotated[File, "A configuration file in YAML or JSON."] = None,
    metadata: Annotated[
        Pairs, "Metadata of the repository; VALUE is JSON or plain text. Repeatable."
    ] = None,
) -> None:
    """Create a new repository.

    The repository has one empty commit on the branch main.

    LOCATION must be empty or new. Give it as the argument or with --repo; the default is
    $ICECTL_REPO, or else the current directory. If two clients create a repository in the same
    location at the same time, one succeeds and the other fails.
    """
    if location is not None and context.options.repo is not None:
        raise UsageError(
            "the location is given twice", hint=f"icectl init {shell_argument(location)}"
        )
    if location is not None:
        context.options = replace(context.options, repo=location)
    place = context.options.repo
    if place is None:
        place = context.environ.get("ICECTL_REPO") or "."
    if not place:
        raise UsageError("the location is empty", hint="give a path, a URL or a name")
    stored = _read_config_file(config_file) if config_file is not None else {}
    check_config(stored)
    for key, value in parse_pairs(config or ()).items():
        check_value(key, value)
        stored = set_key(stored, key, value)
    storage = context.open_storage(place)
    pairs = parse_pairs(metadata or ())
    try:
        result = create_repository(
            storage, spec_version=spec_version, config=stored, metadata=pairs
        )
    except RefusedError as error:
        error.hint = error.hint or f"show it with {context.command_line('log')}"
        raise
    created = f"created a repository of spec version {spec_version} at {result.location}"
    context.emit(result, lambda _: [created])


def _read_config_file(path: Path) -> dict[str, object]:
    from icectl.format.config import decode_config_yaml

    try:
        return decode_config_yaml(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except FormatError as error:
        raise UsageError(f"{path}: {error.message}") from None
