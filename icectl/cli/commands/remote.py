"""`icectl remote`: manage the named repositories in the config file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import typer

from icectl.cli.config_file import add_repository, remove_repository
from icectl.cli.context import CommandContext
from icectl.cli.locations import (
    Location,
    looks_like_location,
    parse_storage_options,
    resolve_location,
)
from icectl.cli.options import command
from icectl.cli.values import check_text
from icectl.errors import RefNotFoundError, UsageError
from icectl.model.redaction import HIDDEN, is_secret
from icectl.render.blocks import Block, Column, Table
from icectl.storage.open import open_storage

EXAMPLES = """
icectl remote list  # every name and its location
icectl remote show prod  # its location and options
icectl remote add prod s3://bucket/prefix  # then use icectl log -r prod
icectl remote add lab s3://bucket/lab --storage-option endpoint_url=http://127.0.0.1:9000
  # an S3-compatible server
icectl remote remove prod  # remove only the name
"""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Remote:
    name: str
    location: str
    storage_options: dict[str, str]


NameArgument = Annotated[str, typer.Argument(metavar="REMOTE"), "The name of the repository."]


@command(repository=False, jsonl=True)
def list_remotes(context: CommandContext) -> None:
    """List the named repositories.

    The names are in the config file and can be used as LOCATION in any command.
    """
    remotes = [_remote(name, place) for name, place in context.config.repositories.items()]
    nothing = f"no named repositories in {context.config.path}"
    context.emit_list("remotes", remotes, _render_remotes, paged=False, if_empty=nothing)


@command(repository=False)
def show(context: CommandContext, name: NameArgument) -> None:
    """Show one named repository.

    Shows its location and storage options.
    """
    place = context.config.repositories.get(name)
    if place is None:
        raise RefNotFoundError(
            f"there is no repository named {name!r}", hint="list the names: icectl remote list"
        )
    context.emit(_remote(name, place), _render_remote)


@command(repository=False, storage_options=True)
def add(
    context: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME"), "The new name."],
    location: Annotated[
        str,
        typer.Argument(metavar="LOCATION"),
        "A path or a URL (s3://, gs://, az://, https://, file://).",
    ],
) -> None:
    """Give a repository a name.

    The repository is not changed and need not exist yet. Storage options are stored with the
    name. Credentials are not allowed in the config file: set them in the standard variables or
    files of AWS, Google and Azure.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid name of a repository",
            hint="use letters, digits, dots, dashes and underscores; begin with a letter or digit",
        )
    if not location:
        raise UsageError("the location is empty", hint="give a path or a URL")
    for text in (location, *(context.options.storage_option or ())):
        check_text(text)  # the config file is UTF-8
    options = parse_storage_options(context.options.storage_option or ())
    if not looks_like_location(location):
        location = f"./{location}"
    place = resolve_location(location, options, context.environ)
    open_storage(place.url, options)  # checks location and options without connecting
    if "://" not in place.url:
        place = Location(str(Path(place.url).resolve()), options)
    add_repository(context.config, name, place)
    context.emit(_remote(name, place), _render_remote)


@command(repository=False)
def remove(context: CommandContext, name: NameArgument) -> None:
    """Remove the name of a repository.

    The repository is not changed.
    """
    place = context.config.repositories.get(name)
    remove_repository(context.config, name)
    if place is not None:
        context.emit(_remote(name, place), lambda _remote: ())
    context.note(f"{name} removed; the repository was not changed")


def _remote(name: str, place: Location) -> Remote:
    """Return the remote without secrets, in case someone wrote one into the config file."""
    options = {
        key: HIDDEN if is_secret(key, value) else value
        for key, value in place.storage_options.items()
    }
    return Remote(name, HIDDEN if is_secret("", place.url) else place.url, options)


def _render_remotes(remotes: Iterable[Remote]) -> Iterable[Block]:
    columns = (
        Column("NAME", lambda remote: remote.name, "branch"),
        Column("LOCATION", lambda remote: remote.location, wraps=True),
    )
    yield Table(columns, remotes)


def _render_remote(remote: Remote) -> Iterable[Block]:
    rows = [("name", remote.name), ("location", remote.location)]
    rows += [(f"option {key}", value) for key, value in remote.storage_options.items()]
    columns = (Column("FIELD", itemgetter(0), "dim"), Column("VALUE", itemgetter(1)))
    yield Table(columns, rows)
