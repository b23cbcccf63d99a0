"""The config file: named repositories, in TOML.

    [repositories.NAME]
    location = "s3://bucket/prefix"
    [repositories.NAME.storage_options]
    endpoint_url = "http://127.0.0.1:9000"
    [repositories.NAME.policies.default]
    keep_last = 20
    keep_daily = 30
    [repositories.NAME.maintenance]
    expire = "default"
    gc_older_than = "7d"

Its path is `$ICECTL_CONFIG`, else `$XDG_CONFIG_HOME/icectl/config.toml`, else
`~/.config/icectl/config.toml`. Users edit it too, so changes use tomlkit, which preserves the rest
of the text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from icectl.cli.locations import Location
from icectl.errors import IcectlError, RefNotFoundError, RefusedError, UsageError


@dataclass(frozen=True, slots=True)
class ConfigFile:
    path: Path
    text: str
    document: Mapping[str, Any]

    @property
    def repositories(self) -> dict[str, Location]:
        """Return the repositories by name, in the order of the file."""
        tables = self.document.get("repositories", {})
        if not isinstance(tables, dict):
            raise malformed(self.path, "repositories is not a table")
        return {name: self._location(name, table) for name, table in tables.items()}

    def policy(self, repository: str | None, name: str) -> dict[str, Any]:
        """Return the unchecked rules of `[repositories.REPOSITORY.policies.NAME]`."""
        if repository not in self.repositories:
            raise UsageError(
                "a policy requires a named repository",
                hint=f"add -r NAME, with a NAME from {self.path}",
            )
        policies = self.document["repositories"][repository].get("policies", {})
        if not isinstance(policies, dict):
            raise UsageError(
                f"repositories.{repository}.policies is not a table", hint=f"edit {self.path}"
            )
        found = policies.get(name)
        if not isinstance(found, dict):
            raise UsageError(
                f"the repository {repository} has no policy {name!r}",
                hint=f"add [repositories.{repository}.policies.{name}] to {self.path}",
            )
        return found

    def maintenance(self, repository: str) -> dict[str, Any] | None:
        """Return the unchecked keys of `[repositories.REPOSITORY.maintenance]`, if it exists."""
        found = self.document["repositories"][repository].get("maintenance")
        if not isinstance(found, dict | None):
            raise malformed(self.path, f"repositories.{repository}.maintenance is not a table")
        return found

    def _location(self, name: str, table: Any) -> Location:
        location = table.get("location") if isinstance(table, dict) else None
        # An empty path would be the directory of the file.
        if not isinstance(location, str) or not location:
            raise malformed(self.path, f"repositories.{name} has no location")
        options = table.get("storage_options", {})
        if not isinstance(options, dict):
            raise malformed(self.path, f"repositories.{name}.storage_options is not a table")
        return Location(
            location,
            {
                key: str(value).lower() if isinstance(value, bool) else str(value)
                for key, value in options.items()
            },
        )


def config_path(environ: Mapping[str, str]) -> Path:
    if named := environ.get("ICECTL_CONFIG"):
        return Path(named)
    if base := environ.get("XDG_CONFIG_HOME"):
        return Path(base) / "icectl" / "config.toml"
    home = Path(environ.get("HOME") or "~")
    # In a container a user may have no home directory, and therefore no config file.
    with contextlib.suppress(RuntimeError):
        home = home.expanduser()
    return home / ".config" / "icectl" / "config.toml"


def read_config_file(environ: Mapping[str, str]) -> ConfigFile:
    """Return the parsed file, which is empty if it does not exist."""
    import tomllib

    path = config_path(environ)
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
        _check_integers(document)
        return ConfigFile(path, text, document)
    except FileNotFoundError:
        return ConfigFile(path, "", {})
    except OSError as error:
        raise UsageError(f"the config file {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise malformed(path, str(error)) from None


def find_repository(config: ConfigFile, name: str) -> Location:
    if name not in config.repositories:
        raise RefNotFoundError(
            f"there is no repository named {name!r}", hint="list the names: icectl remote list"
        )
    return config.repositories[name]


def add_repositories(config: ConfigFile, new: Mapping[str, Location]) -> None:
    """Append the repositories to the file at once; raise `RefusedError` if a name is in use."""
    import tomlkit

    from icectl.cli.hints import shell_argument

    for name in new.keys() & config.repositories.keys():
        raise RefusedError(
            f"a repository named {name!r} already exists",
            hint=f"remove it first: icectl remote remove {shell_argument(name)}",
        )
    document = tomlkit.parse(config.text)
    tables = document.setdefault("repositories", tomlkit.table(is_super_table=True))
    for name, location in new.items():
        entry: dict[str, Any] = {"location": location.url}
        if location.storage_options:
            entry["storage_options"] = dict(location.storage_options)
        tables[name] = entry
    _replace(config, tomlkit.dumps(document))


def remove_repository(config: ConfigFile, name: str) -> None:
    """Remove the repository's tables from the file, but not the comments of the next table."""
    import tomlkit

    document = tomlkit.parse(config.text)
    tables = document["repositories"]
    # tomlkit assigns the comment above a header to the previous table.
    comments = _trailing_comments(tables[name].as_string())
    del tables[name]
    if not tables:
        del document["repositories"]
    text = tomlkit.dumps(document)
    pairs = zip(config.text, text, strict=False)
    same = next((at for at, (old, new) in enumerate(pairs) if old != new), len(text))
    at = text.rfind("\n", 0, same) + 1
    _replace(config, text[:at] + comments + text[at:])


def _trailing_comments(text: str) -> str:
    lines = text.splitlines(keepends=True)
    start = len(lines)
    while start and (not lines[start - 1].strip() or lines[start - 1].lstrip().startswith("#")):
        start -= 1
    return "".join(lines[start:]).lstrip("\n")


def _check_integers(value: object) -> None:
    """Raise `ValueError` for more than 64 bits, which Python parses but cannot print."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_integers(item)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("an integer has more than 64 bits")


def _replace(config: ConfigFile, text: str) -> None:
    """Replace the file atomically; only its owner can read it."""
    from icectl.ops.files import replace_file

    try:
        config.path.resolve().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(config.path, text.encode(), 0o600)
    except OSError as error:
        raise IcectlError(
            f"the config file {config.path} cannot be written: {error.strerror}"
        ) from error


def malformed(path: Path, reason: str, hint: str | None = None) -> UsageError:
    return UsageError(f"the config file {path} is not valid: {reason}", hint=hint or f"edit {path}")
