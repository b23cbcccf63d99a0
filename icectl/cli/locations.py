"""Find the repository: a path, a URL, a name from the config file, or the current directory.

Storage options never contain secrets: the storage libraries read credentials from the standard
variables and files, so secrets do not get into shell history, process lists or the config file.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from icectl.errors import RepositoryNotFoundError, UsageError
from icectl.model.redaction import is_secret
from icectl.repository.layout import ROOT_DIRECTORIES
from icectl.storage.cloud_variables import check_cloud_variables
from icectl.storage.contract import Storage
from icectl.storage.open import open_storage, without_password

_ONE_SLASH = re.compile(r"(file|s3|gs|gcs|az|https?|memory):/(?!/)")
_LIKE_A_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{2,62}/\S+")
"""`bucket/prefix`, if the user forgot the scheme."""
_MARKERS = (("repo",), *ROOT_DIRECTORIES)
"""Names in the root of a repository: V2, and the others."""


@dataclass(frozen=True, slots=True)
class Location:
    url: str
    storage_options: Mapping[str, str] = field(default_factory=dict)


def find_location(
    repo: str | None, storage_options: Iterable[str], environ: Mapping[str, str]
) -> Location:
    """Return `--repo`, else `$ICECTL_REPO`, else the repository around the current directory."""
    options = parse_storage_options(storage_options)
    named = repo if repo is not None else environ.get("ICECTL_REPO")
    if named:
        return resolve_location(named, options, environ)
    if repo == "":
        raise UsageError("the location is empty", hint="give a path, a URL or a name")
    here = working_directory()
    directory = next(filter(is_repository_directory, (here, *here.parents)), None)
    if directory is None:
        raise RepositoryNotFoundError(
            "no repository in this directory or any parent directory",
            hint="add -r LOCATION, or set ICECTL_REPO",
        )
    return Location(str(directory), options)


def resolve_location(text: str, options: Mapping[str, str], environ: Mapping[str, str]) -> Location:
    """Resolve a location of a user. A name in the config file takes precedence over a directory.

    A relative path in the config file is relative to the directory of that file.
    """
    if "://" in text:
        return Location(without_password(text), options)
    if not looks_like_location(text):
        from icectl.cli.config_file import read_config_file

        config = read_config_file(environ)
        remote = config.repositories.get(text)
        if remote is not None:
            merged = {**remote.storage_options, **options}
            if "://" in remote.url:
                return Location(without_password(remote.url), merged)
            return Location(str(config.path.absolute().parent / _expand(remote.url)), merged)
    if mistyped := _ONE_SLASH.match(text):
        url = f"{mistyped[1]}:///" if mistyped[1] == "file" else f"{mistyped[1]}://"
        raise UsageError(
            f"{text} is neither a path nor a URL",
            hint=f"write {url}{text[mistyped.end() :]}, or ./{text} for a directory with this name",
        )
    path = _expand(text)
    return Location(str(path if path.is_absolute() else working_directory() / path), options)


def is_hidden_directory(text: str, found: Location) -> bool:
    """Return whether the text is a directory, but a name in the config file took precedence."""
    if looks_like_location(text):
        return False
    path = Path(text)
    return path.is_dir() and found.url != str(path.absolute())


def suggest_repository(text: str, environ: Mapping[str, str]) -> str | None:
    """Return a hint for a location without a repository: a likely alternative."""
    from difflib import get_close_matches

    if "://" in text:
        return None
    if not looks_like_location(text):
        from icectl.cli.config_file import read_config_file

        names = read_config_file(environ).repositories
        if text in names:
            return None
        if close := get_close_matches(text, names, n=1):
            return f"did you mean {close[0]}?"
    path = _expand(text).absolute()
    around = next(filter(is_repository_directory, path.parents), None)
    if around is not None:
        return f"use the repository that contains it: -r {shlex.quote(str(around))}"
    for below in _directories(path):
        if is_repository_directory(path / below):
            return f"did you mean {os.path.join(text, below)}?"  # noqa: PTH118 -- as typed
    for name in get_close_matches(path.name, _directories(path.parent), n=3):
        if is_repository_directory(path.with_name(name)):
            return f"did you mean {path.with_name(name)}?"
    if _LIKE_A_BUCKET.fullmatch(text) and not path.parent.exists():
        return f"for a bucket, write -r s3://{shlex.quote(text)} or -r gs://{shlex.quote(text)}"
    return None


def _directories(path: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
    except OSError:
        return []


def _expand(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UsageError(
            f"the home directory in {text} is unknown",
            hint=f"write the full path, or ./{text} for a directory with this name",
        ) from None


def looks_like_location(text: str) -> bool:
    """Return whether the text can only be a path or a URL, not a name or a ref."""
    return "://" in text or text in (".", "..", "~") or text.startswith(("/", "./", "../", "~/"))


def is_repository_directory(path: str | Path) -> bool:
    root = Path(path)
    try:
        if path == "" or (root / "repo").is_dir():  # a directory named repo may be a repository
            return False
        return any(all((root / name).exists() for name in names) for names in _MARKERS)
    except (OSError, ValueError):  # an invalid file name, or no permission
        return False


def parse_storage_options(pairs: Iterable[str]) -> dict[str, str]:
    """Parse `KEY=VALUE` pairs; refuse anything that looks like a secret."""
    options = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise UsageError(
                "a storage option must have the form KEY=VALUE", hint="write endpoint_url=URL"
            )
        if is_secret(key, value):
            raise UsageError(
                f"the storage option {key} looks like a secret, or contains one",
                hint="set credentials in the standard variables or files: AWS_ACCESS_KEY_ID, "
                "AWS_PROFILE, ~/.aws, GOOGLE_APPLICATION_CREDENTIALS",
            )
        options[key] = value
    return options


def working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise UsageError(
            "the current directory no longer exists", hint="change to another directory: cd"
        ) from None


def open_location(location: Location, environ: Mapping[str, str]) -> Storage:
    """Open the storage, after the variables of its cloud are checked."""
    check_cloud_variables(location.url, location.storage_options, environ)
    return open_storage(location.url, location.storage_options)
