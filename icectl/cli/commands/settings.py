"""`icectl status`, `config`, `metadata` and `flags`: the settings stored in a repository."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import AtOpOption, Flag, command
from icectl.cli.values import check_text, parse_value
from icectl.errors import UsageError
from icectl.model.redaction import redact_locations
from icectl.model.repo import Availability
from icectl.ops import settings
from icectl.ops.settings import FeatureFlag, NamedValue, StatusReport
from icectl.render.blocks import Block, Column, Role, Table
from icectl.render.json import show_json
from icectl.render.operations import format_availability
from icectl.render.text import format_time_short
from icectl.repository.config import read_config

EXAMPLES = """
icectl status  # online, read-only or offline, since when and why
icectl status set read-only --reason "migration"  # refuse all writers
icectl status set online  # accept changes again
icectl config get  # all values that differ from the default
icectl config get inline_chunk_threshold_bytes  # one value
icectl config set inline_chunk_threshold_bytes 1024  # for every client
icectl config set compression.level null  # restore the default
icectl metadata get  # all values
icectl metadata get owner  # one value
icectl metadata set owner ocean-team  # plain text
icectl metadata set contacts '["a@example.org"]'  # any JSON
icectl metadata unset owner contacts  # remove two values
icectl flags list  # all flags and their values
icectl flags set delete_tag off  # forbid all clients to delete tags
icectl flags set delete_tag default  # remove the setting
"""
KEY_HELP = "A dotted key, such as compression.level."


@command()
def show_status(context: CommandContext, at_op: AtOpOption = None) -> None:
    """Show whether the repository accepts changes.

    Shows online, read-only or offline, the time of the last change, and the reason.

    A repository of spec version 1 has no status and is always online.
    """
    context.emit(settings.read_status(context.open_repository(at_op)), render_status)


@command()
def set_status(
    context: CommandContext,
    availability: Annotated[
        Literal["online", "read-only", "offline", "read_only"],
        typer.Argument(metavar="AVAILABILITY"),
        "online, read-only or offline.",
    ],
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT"), "The reason, which clients show to users."
    ] = None,
    accept_older_repo: Annotated[
        Flag,
        "Continue with a repo file that is older than its own backups. gc keeps the "
        "snapshots that only newer backups list.",
    ] = False,
) -> None:
    """Set the repository online, read-only or offline.

    If the repository is read-only, icectl and the official clients refuse every change except
    this one. Clients that have it open notice this at their next change. Only icectl supports
    offline: official clients treat it as online and continue to write, and their next change
    resets the status to online. Use read-only to stop them.
    """
    if reason is not None:
        check_text(reason)
    wanted = Availability[availability.replace("-", "_").upper()]
    repository = context.open_repository(for_update=True)
    report = settings.set_status(repository, wanted, reason, accept_older_repo=accept_older_repo)
    if wanted is Availability.OFFLINE:
        context.warn(
            "official clients ignore offline and continue to write; use read-only to stop them"
        )
    context.emit(report, render_status)


@command()
def get_config(
    context: CommandContext,
    key: Annotated[str | None, typer.Argument(metavar="CONFIG_KEY"), KEY_HELP] = None,
    at_op: AtOpOption = None,
) -> None:
    """Show the stored configuration.

    With CONFIG_KEY, show one value.

    If a value is missing or null, clients use their default.
    """
    repository = context.open_repository(at_op)
    if key is not None:
        value = redact_locations(settings.read_config_value(repository, key).value)
        context.emit(settings.NamedValue(key, value), render_named_value)
    else:
        config = redact_locations(read_config(repository))
        context.emit({"config": config}, lambda _: render_mapping(config))


@command()
def set_config(
    context: CommandContext,
    key: Annotated[str, typer.Argument(metavar="CONFIG_KEY"), KEY_HELP],
    value: Annotated[
        str, typer.Argument(metavar="VALUE"), "JSON, or plain text; null restores the default."
    ],
) -> None:
    """Set a value of the stored configuration.

    Every client reads the configuration when it opens the repository, and fails if a value has
    the wrong type. Therefore only known keys and values that clients accept can be set.
    """
    repository = context.open_repository(for_update=True)
    result = settings.set_config_value(repository, key, parse_value(value))
    context.emit(result, lambda _: [f"{result.key} set"])


@command()
def get_metadata(
    context: CommandContext,
    key: Annotated[str | None, typer.Argument(metavar="KEY"), "The name of one value."] = None,
    at_op: AtOpOption = None,
) -> None:
    """Show the metadata of the repository.

    With KEY, show one value.

    The metadata of a commit is different; `icectl show` shows it.
    """
    repository = context.open_repository(at_op)
    if key is not None:
        context.emit(settings.read_metadata_value(repository, key), render_named_value)
        return
    metadata = settings.read_metadata(repository)
    if not metadata and context.wants_text:
        context.note("the repository has no metadata")
    context.emit({"metadata": metadata}, lambda _: render_mapping(metadata))


@command()
def set_metadata(
    context: CommandContext,
    key: Annotated[str, typer.Argument(metavar="KEY"), "The name of the value."],
    value: Annotated[str, typer.Argument(metavar="VALUE"), "JSON or plain text."],
) -> None:
    """Add or replace a metadata value."""
    if not key:
        raise UsageError(
            "the name of the value is empty", hint="write `icectl metadata set KEY VALUE`"
        )
    values = {check_text(key): parse_value(value)}
    metadata = settings.set_metadata(context.open_repository(for_update=True), values)
    context.emit({"metadata": metadata}, lambda _document: ["metadata set"])


@command()
def unset_metadata(
    context: CommandContext,
    keys: Annotated[list[str], typer.Argument(metavar="KEY"), "The names of the values."],
) -> None:
    """Remove metadata values."""
    settings.unset_metadata(context.open_repository(for_update=True), keys)
    context.emit({"unset": keys}, lambda _document: ["metadata removed"])


@command(jsonl=True)
def list_flags(context: CommandContext, at_op: AtOpOption = None) -> None:
    """List the feature flags.

    A flag allows or forbids an operation in this repository.
    """
    flags = settings.list_flags(context.open_repository(at_op))
    context.emit_list("flags", flags, render_flags, paged=False)


@command()
def set_flag(
    context: CommandContext,
    flag: Annotated[
        str, typer.Argument(metavar="FLAG"), "move_node, create_tag, delete_tag, or its number."
    ],
    value: Annotated[
        Literal["on", "off", "default"], typer.Argument(metavar="VALUE"), "on, off, or default."
    ],
) -> None:
    """Turn a feature flag on or off.

    The VALUE `default` removes the setting; every flag is on by default.
    """
    wanted = {"on": True, "off": False, "default": None}[value]
    changed = settings.set_flag(context.open_repository(for_update=True), flag, wanted)
    context.emit(changed, lambda _: render_flags([changed]))


def render_status(report: StatusReport) -> Iterator[Block]:
    name = format_availability(report.availability).replace("_", "-")
    role: Role = "good" if report.availability == 0 else "warning"
    since = "" if report.set_at is None else f", since {format_time_short(report.set_at)}"
    yield ((name, role), since)
    if report.reason is not None:
        yield f"reason: {report.reason}"
    yield f"{report.location}: {report.generation}, spec {report.spec_version}"


def render_mapping(values: Mapping[str, object]) -> Iterator[Block]:
    """Yield `name: value` lines with dotted names for nested values, and values as JSON."""
    for name, value in _flatten(values, ""):
        yield ((name, "title"), f": {show_json(value)}")


def render_named_value(value: NamedValue) -> Iterator[Block]:
    """Yield only the value, for use in a shell: text unchanged, other values as JSON."""
    yield (value.value if isinstance(value.value, str) else show_json(value.value))


def render_flags(flags: Iterable[FeatureFlag]) -> Iterator[Block]:
    columns = (
        Column("FLAG", lambda flag: flag.name or "(unknown)", "title"),
        Column("ID", lambda flag: flag.id, right=True),
        Column("STATE", lambda flag: "on" if flag.enabled else "off"),
        Column("SET", lambda flag: "default" if flag.setting is None else "here"),
    )
    yield Table(columns, flags)


def _flatten(values: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", value
