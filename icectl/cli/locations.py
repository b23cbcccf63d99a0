"""Find the repository: a path, a URL, a name from the config file, or the current directory.

Storage options never contain secrets: the storage libraries read credentials from the standard
variables and files, so secrets do not get into shell history, process lists or the config file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from icectl.cli.hints import shell_word
from icectl.errors import RepositoryNotFoundError, UsageError

HIDDEN = "(hidden)"
_SECRET = re.compile(
    r"secret|password|passwd|credentials?$|access_?key|account_?key|private_?key|api_?key"
    r"|token|connection_?string|authorization|(^|[._])(key|auth)$",
    re.IGNORECASE,
)
_SECRET_FILE = re.compile(r"(file|path|provider|bitlength|enabled)$|\.secret(s|keyref)\.", re.I)
"""Spark settings that are not secrets but refer to one."""
_USERINFO = re.compile(r"://(?:[^\s/]*@|[^\s/@:]*:(?![0-9]*(?:/|$))\S*@)")
"""`user:password@` in a URL. AWS secret keys may contain a `/`; ports do not."""
_AUTHORIZATION = re.compile(r"\b(Bearer|Basic) +[^\s'\"]+", re.IGNORECASE)
_SHORTEST_SECRET = 6
"""Shorter values occur by chance in many texts, and hiding them would hide too much."""
_ONE_SLASH = re.compile(r"(file|s3|gs|gcs|az|https?|memory):/(?!/)")
_LIKE_A_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{2,62}/\S+")
"""`bucket/prefix`, if the user forgot the scheme."""
_MARKERS = (("repo",), ("refs", "snapshots"), ("r", "s"), ("snapshots", "overwritten"))
"""Names in the root of a repository: V2, V1, the legacy generations, V2 without `repo`."""


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
        raise UsageError("--repo is empty", hint="give a path, a URL or a name")
    directory = _directory_upward()
    if directory is None:
        raise RepositoryNotFoundError(
            "no repository in this directory or any parent directory",
            hint="add -r LOCATION, or set ICECTL_REPO",
        )
    return Location(directory, options)


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


def suggest_repository(text: str, environ: Mapping[str, str]) -> str | None:
    """Return a hint for a location without a repository: a likely alternative."""
    if "://" in text:
        return None
    if not looks_like_location(text):
        import difflib

        from icectl.cli.config_file import read_config_file

        names = read_config_file(environ).repositories
        if close := difflib.get_close_matches(text, names, n=1):
            return f"did you mean {close[0]}?"
    path = _expand(text).absolute()
    around = next(filter(is_repository_directory, path.parents), None)
    if around is not None:
        return f"use the repository that contains it: -r {shell_word(str(around))}"
    if below := _find_below(path):
        return f"did you mean {os.path.join(text, below)}?"  # noqa: PTH118 -- as typed
    if neighbour := _suggest_neighbour(path):
        return neighbour
    if _LIKE_A_BUCKET.fullmatch(text) and not path.parent.exists():
        return f"for a bucket, write -r s3://{shell_word(text)} or -r gs://{shell_word(text)}"
    return None


def _find_below(path: Path) -> str | None:
    """The name of a repository in this directory."""
    try:
        names = sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
    except OSError:
        return None
    return next((name for name in names if is_repository_directory(path / name)), None)


def _suggest_neighbour(path: Path) -> str | None:
    import difflib

    try:
        names = [entry.name for entry in os.scandir(path.parent)]
    except OSError:
        return None
    for name in difflib.get_close_matches(path.name, names, n=3):
        if is_repository_directory(path.with_name(name)):
            return f"did you mean {path.with_name(name)}?"
    return None


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


def is_secret(key: str, value: str) -> bool:
    """Return whether a setting must not be stored or shown; a query may be a signature."""
    return (
        _SECRET.search(key) is not None
        or _has_password(value)
        or (key == "endpoint_url" and ("?" in value or "#" in value))
    )


def without_password(url: str) -> str:
    """Return the URL; raise `UsageError` if it contains a user name or a password."""
    if _has_password(url):
        raise UsageError(
            "the location contains a user name or a password",
            hint="set credentials in the standard variables or files",
        )
    return url


def _has_password(url: str) -> bool:
    """Return whether a URL contains `user:password@`, which messages must not repeat."""
    return _USERINFO.search(url) is not None


def hide_secrets(text: str) -> str:
    """Return the text of a message without passwords that the user typed by mistake.

    The time is linear in the length of the text, because messages contain names from files.
    """
    return re.sub(r"\S+", lambda word: _hide_value(_hide_password(word[0])), text)


def _hide_password(word: str) -> str:
    # No pattern can match after the last @; there, each :// would scan the entire rest.
    head, at, rest = word.rpartition("@")
    return _USERINFO.sub(f"://{HIDDEN}@", head + at) + rest


def hide_known_secrets(text: str, environ: Mapping[str, str]) -> str:
    """Remove the secrets of the environment from a traceback, which may contain any text."""
    known = {value for name, value in environ.items() if _SECRET.search(name)}
    for value in sorted(known, key=len, reverse=True):
        if len(value) >= _SHORTEST_SECRET and not Path(value).is_absolute():
            text = text.replace(value, HIDDEN)
    return _AUTHORIZATION.sub(rf"\1 {HIDDEN}", text)


def check_spark_conf(conf: Iterable[str]) -> None:
    """Refuse secrets, which Spark would pass in the arguments of its Java process."""
    for pair in conf:
        key, _, value = pair.partition("=")
        if _SECRET_FILE.search(key):
            continue
        if is_secret(key, value) or hide_secrets(value) != value:
            raise UsageError(
                f"the Spark setting {key} looks like a secret, or contains one",
                hint="every user of this machine could read it; write it to spark-defaults.conf, "
                "with mode 0600, in the directory SPARK_CONF_DIR",
            )


def _hide_value(word: str) -> str:
    """Replace `secret=VALUE` by `secret=(hidden)`; the value may contain `=`."""
    if word == "KEY=VALUE":
        return word  # part of the message
    position = 0
    for key in word.split("=")[:-1]:
        position += len(key) + 1
        if _SECRET.search(key):
            return word[:position] + HIDDEN
    return word


def working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise UsageError(
            "the current directory no longer exists", hint="change to another directory: cd"
        ) from None


def _directory_upward() -> str | None:
    here = working_directory()
    candidates = (here, *here.parents)
    return next((str(path) for path in candidates if is_repository_directory(path)), None)
