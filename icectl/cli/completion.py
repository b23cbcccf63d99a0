"""Shell completion of refs, node paths, remotes, rule codes and kinds.

typer calls these functions with the words typed so far. A failure yields no candidates: completion
must never print an error into the line that the user is typing. Names in a repository are
untrusted; a name that a shell would not take literally is omitted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from icectl.repository.open import Names
    from icectl.repository.repository import Repository
    from icectl.storage.contract import Storage

_HARMLESS = re.compile(r"[\w/@][\w./@+-]*")
Finder = Callable[[typer.Context, str], Iterable[str]]
Completer = Callable[[typer.Context, str], list[str]]


def _completer(find: Finder) -> Completer:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            names = sorted(find(ctx, incomplete))
        except Exception:
            return []
        return [name for name in names if name.startswith(incomplete) and _HARMLESS.fullmatch(name)]

    return complete


def given_values(ctx: typer.Context | None, name: str) -> list[Any]:
    """Return the values of a common option, last one first: after the command, then before it."""
    found: list[Any] = []
    while ctx is not None:
        value = ctx.params.get(name)
        found += value[::-1] if isinstance(value, list | tuple) else [value]
        ctx = ctx.parent  # type: ignore[assignment]
    return [value for value in found if value is not None]


def _storage(ctx: typer.Context) -> Storage:
    from icectl.cli.locations import find_location
    from icectl.storage.open import open_storage

    repo = next(iter(given_values(ctx, "repo")), None)
    location = find_location(repo, given_values(ctx, "storage_option")[::-1], os.environ)
    return open_storage(location.url, location.storage_options)


def _open(ctx: typer.Context) -> Repository:
    from icectl.repository.open import open_repository

    return open_repository(_storage(ctx))


def _names(ctx: typer.Context) -> Names:
    from icectl.repository.open import read_names

    return read_names(_storage(ctx))


def _refs(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Refs, and after `A..` the other end of the range."""
    known = _names(ctx)
    start, dots, incomplete = incomplete.rpartition("..")
    names = {*known.branches, *known.tags}
    prefix = incomplete.upper()
    if len(prefix) >= 4:
        # Offer ids only after enough characters to distinguish them from names.
        names |= {str(id_) for id_ in known.find_snapshots(prefix)}
    return [f"{start}{dots}{name}" for name in names]


def _nodes(ctx: typer.Context, _incomplete: str) -> Iterable[str]:
    from icectl.repository.nodes import list_nodes
    from icectl.repository.resolve import DEFAULT_REF

    ref = ctx.params.get("ref")
    listing = list_nodes(_open(ctx), DEFAULT_REF if ref is None else ref, "/", depth=None)
    return [node.path for node in listing.nodes]


def _remotes(_ctx: typer.Context, _incomplete: str) -> Iterable[str]:
    from icectl.cli.config_file import read_config_file

    return read_config_file(os.environ).repositories


def _operations(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Numbers of operations in the repo file, and after `overwritten/` the backups it names."""
    info = _open(ctx).info
    updates = () if info is None else info.latest_updates
    if incomplete.startswith("o"):
        return [f"overwritten/{update.backup_path}" for update in updates if update.backup_path]
    return [f"@{number}" for number in range(len(updates))]


def _paths(_ctx: typer.Context, incomplete: str) -> Iterable[str]:
    directory, slash, _ = incomplete.rpartition("/")
    for entry in os.scandir((directory + slash) or "."):
        yield f"{directory}{slash}{entry.name}" + ("/" if entry.is_dir() else "")


def _directories(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    return [path for path in _paths(ctx, incomplete) if path.endswith("/")]


_FINDERS: dict[str, Finder] = {
    "REF": _refs,
    "FROM": _refs,
    "TO": _refs,
    "BRANCH": lambda ctx, _: _names(ctx).branches,
    "TAG": lambda ctx, _: _names(ctx).tags,
    "PATH": _nodes,
    "REMOTE": _remotes,
    "LOCATION": lambda ctx, word: [*_remotes(ctx, word), *_directories(ctx, word)],
    "FILE": _paths,
    "DIRECTORY": _directories,
    "FLAG": lambda *_: import_module("icectl.model.repo").FEATURE_FLAGS.values(),
    "CONFIG_KEY": lambda *_: import_module("icectl.ops.config_keys").KEYS,
    "CODE": lambda *_: [*import_module("icectl.checks.rules").catalogue(), "all"],
    "OP": _operations,
    "KIND": lambda *_: import_module("icectl.ops.ops_log").KINDS,
    "KINDS": lambda *_: ("snapshots", "transaction_logs", "manifests", "chunks"),
}
BY_METAVAR = {metavar: _completer(find) for metavar, find in _FINDERS.items()}
"""The completion for each metavar, the same in every command."""
