"""`icectl remote`: manage the named repositories in the config file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import typer

from icectl.cli import exit_codes
from icectl.cli.config_file import (
    add_repositories,
    find_repository,
    read_config_file,
    remove_repository,
)
from icectl.cli.context import CommandContext
from icectl.cli.locations import (
    Location,
    looks_like_location,
    open_location,
    parse_storage_options,
    resolve_location,
)
from icectl.cli.options import command
from icectl.cli.values import check_text
from icectl.errors import IcectlError, RefusedError, UsageError
from icectl.model.redaction import HIDDEN, is_secret, redact_location
from icectl.ops.discover import (
    NAME,
    NamedRepository,
    find_repositories,
    identify,
    locate,
    name_repositories,
)
from icectl.render.blocks import Block, Column, Table
from icectl.render.text import format_count
from icectl.storage.open import open_storage, without_password

EXAMPLES = """
icectl remote list  # every name and its location
icectl remote show prod  # its location and options
icectl remote add prod s3://bucket/prefix  # then use icectl log -r prod
icectl remote add lab s3://bucket/lab --storage-option endpoint_url=http://127.0.0.1:9000
  # an S3-compatible server
icectl remote remove prod  # remove only the name
icectl remote discover s3://bucket/prefix  # list the repositories below it, and offer to add names
icectl remote discover /data --yes  # add a name for each new one
"""


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
    context.emit_list(
        "remotes", remotes, lambda found: [Table(_COLUMNS, found)], paged=False, if_empty=nothing
    )


@command(repository=False)
def show(context: CommandContext, name: NameArgument) -> None:
    """Show one named repository.

    Shows its location and storage options.
    """
    context.emit(_remote(name, find_repository(context.config, name)), _render_remote)


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
    place = _resolve(context, location)
    add_repositories(context.config, {name: place})
    context.emit(_remote(name, place), _render_remote)


@command(repository=False)
def remove(context: CommandContext, name: NameArgument) -> None:
    """Remove the name of a repository.

    The repository is not changed.
    """
    place = find_repository(context.config, name)
    remove_repository(context.config, name)
    context.emit(_remote(name, place), lambda _remote: ())
    context.note(f"{name} removed; the repository was not changed")


@command(repository=False, storage_options=True, jsonl=True)
def discover(
    context: CommandContext,
    url: Annotated[
        str,
        typer.Argument(metavar="LOCATION"),
        "A bucket, a prefix or a directory (s3://, gs://, az://, file:// or a path).",
    ],
    depth: Annotated[
        int,
        typer.Option(metavar="COUNT", min=0),
        "Search this many levels of directories below LOCATION.",
    ] = 4,
    add: Annotated[
        bool, typer.Option("--yes", "-y", "--add"), "Add the new ones without asking."
    ] = False,
) -> int | None:
    """Find repositories and give them names.

    Lists the directories below LOCATION level by level, but nothing inside a repository. Shows
    each repository with the name that it has in the config file, or with a name for it that is
    derived from its path. On a terminal, asks whether to add the new ones; otherwise, adds them
    only with --yes. Storage options are stored with each name.

    Symbolic links are not followed. Directories that cannot be listed are skipped with a warning
    and exit code 3.
    """
    place = _resolve(context, url)
    storage = open_location(place, context.environ)
    if "://" not in storage.location and not Path(storage.location).is_dir():
        raise UsageError(f"there is no directory {storage.location}", hint="give a path or a URL")
    discovery = find_repositories(storage, depth, context.progress)
    found = name_repositories(
        storage, discovery, _known_places(context), context.config.repositories
    )
    new = [one for one in found if not one.known and _can_be_added(context, one.location)]
    if context.wants_text:
        state = Column("", lambda one: "" if one.known else ("new", "good"))
        columns = (*_COLUMNS, Column("SPEC", lambda one: one.spec_version), state)
        context.output.write([Table(columns, found)])
    if not found:
        levels = format_count(depth, "level")
        context.note(f"no repository within {levels} below {storage.location}")
    if new and (add or _wants(context, new)):
        places = {one.name: Location(one.location, place.storage_options) for one in new}
        # The file may have changed since it was read.
        add_repositories(read_config_file(context.environ), places)
        found = [replace(one, added=True) if one in new else one for one in found]
        context.note(f"{format_count(len(new), 'name')} added to {context.config.path}")
    elif new:
        context.note(f"{format_count(len(new), 'new name')} not added; use --yes to add")
    elif found:
        context.note("no new repository")
    skipped = [
        {"location": locate(storage, one.path), "error": one.error.message}
        for one in discovery.skipped
    ]
    for failure in skipped:
        context.warn(f"{failure['location']} was skipped: {failure['error']}")
    if not context.wants_text:
        beside = {"url": storage.location, "skipped": skipped}
        context.emit_list("repositories", found, lambda _found: (), beside=beside)
    return exit_codes.FINDINGS if skipped else None


def _can_be_added(context: CommandContext, location: str) -> bool:
    try:
        check_text(without_password(location))
    except UsageError as error:
        context.warn(f"{location!r} cannot be added: {error.message}")
        return False
    return True


def _wants(context: CommandContext, new: Sequence[NamedRepository]) -> bool:
    """Ask on a terminal; declining is not a failure."""
    if not context.is_interactive or not context.wants_text:
        return False
    with suppress(RefusedError):
        context.confirm(f"Add {format_count(len(new), 'new name')} to the config file?", yes=False)
        return True
    return False


def _known_places(context: CommandContext) -> dict[tuple[str, str], str]:
    """The names in the config file by the places that they lead to, without unusable ones."""
    known: dict[tuple[str, str], str] = {}
    for name in context.config.repositories:
        with suppress(IcectlError):
            place = resolve_location(name, {}, context.environ)
            known.setdefault(identify(open_storage(place.url, place.storage_options)), name)
    return known


def _resolve(context: CommandContext, location: str) -> Location:
    """Return the location of a user, who may not mean a name; a path is absolute."""
    if not location:
        raise UsageError("the location is empty", hint="give a path or a URL")
    for text in (location, *(context.options.storage_option or ())):
        check_text(text)  # the config file is UTF-8
    options = parse_storage_options(context.options.storage_option or ())
    if not looks_like_location(location):
        location = f"./{location}"
    place = resolve_location(location, options, context.environ)
    open_storage(place.url, options)  # checks them without connecting
    return place if "://" in place.url else Location(str(Path(place.url).resolve()), options)


def _remote(name: str, place: Location) -> Remote:
    """Return the remote without secrets, in case someone wrote one into the config file."""
    options = {
        key: HIDDEN if is_secret(key, value) else value
        for key, value in place.storage_options.items()
    }
    url = redact_location(place.url)
    return Remote(name, HIDDEN if is_secret("", place.url) else url, options)


_COLUMNS = (
    Column("NAME", lambda one: one.name, "branch"),
    Column("LOCATION", lambda one: one.location, "path", wraps=True),
)


def _render_remote(remote: Remote) -> Iterable[Block]:
    rows = [("name", remote.name), ("location", remote.location)]
    rows += [(f"option {key}", value) for key, value in remote.storage_options.items()]
    columns = (Column("FIELD", itemgetter(0), "dim"), Column("VALUE", itemgetter(1)))
    yield Table(columns, rows)
