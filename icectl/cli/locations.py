"""Which repository the user means: a path, a URL, a name from the config file, or where they are.

Storage options never carry secrets: credentials come from the standard variables and files
of the storage, so that none lands in a shell history, a process list or a config file.
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
"""Settings of Spark that say where a secret is, or something about it."""
_USERINFO = re.compile(r"://(?:[^\s/]*@|[^\s/@:]*:(?![0-9]*(?:/|$))\S*@)")
"""`user:password@` of a URL; keys of AWS may well contain a `/`, which no port does."""
_AUTHORIZATION = re.compile(r"\b(Bearer|Basic) +[^\s'\"]+", re.IGNORECASE)
_SHORTEST_SECRET = 6
"""Shorter values of variables would hide much of any text."""
_ONE_SLASH = re.compile(r"(file|s3|gs|gcs|memory):/(?!/)")
_LIKE_A_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{2,62}/\S+")
"""`bucket/prefix`, as people write it who leave out the scheme."""
_MARKERS = (("repo",), ("refs", "snapshots"), ("r", "s"))
"""What lies in the root of a repository: V2, V1, and the legacy generations."""


@dataclass(frozen=True, slots=True)
class Location:
    url: str
    storage_options: Mapping[str, str] = field(default_factory=dict)


def find_location(
    repo: str | None, storage_options: Iterable[str], environ: Mapping[str, str]
) -> Location:
    """`--repo`, else `$ICECTL_REPO`, else the repository that the current directory is in."""
    options = parse_storage_options(storage_options)
    named = repo if repo is not None else environ.get("ICECTL_REPO")
    if named:
        return resolve_location(named, options, environ)
    if repo == "":
        raise UsageError("--repo is empty", hint="give a path, a URL or a name")
    directory = _directory_upward()
    if directory is None:
        raise RepositoryNotFoundError(
            "there is no repository in this directory or above it",
            hint="name one: -r LOCATION, or set ICECTL_REPO",
        )
    return Location(directory, options)


def resolve_location(text: str, options: Mapping[str, str], environ: Mapping[str, str]) -> Location:
    """A location as a user writes it. A name from the config file wins over a directory.

    A relative path in the config file is seen from the directory of that file.
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
            hint=f"write {url}{text[mistyped.end() :]}, or ./{text} for a directory of this name",
        )
    path = _expand(text)
    return Location(str(path if path.is_absolute() else working_directory() / path), options)


def suggest_repository(text: str, environ: Mapping[str, str]) -> str | None:
    """A hint for a location that holds no repository: what the user may have meant."""
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
        return f"it lies inside the repository {around}: -r {shell_word(str(around))}"
    if neighbour := _suggest_neighbour(path):
        return neighbour
    if _LIKE_A_BUCKET.fullmatch(text) and not path.parent.exists():
        return f"is it in a bucket? Write -r s3://{shell_word(text)} or -r gs://{shell_word(text)}"
    return None


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
            f"{text} begins with a home directory that is not known",
            hint=f"write the whole path, or ./{text} for a directory of this name",
        ) from None


def looks_like_location(text: str) -> bool:
    """Whether the text can only be a path or a URL, never a name or a ref."""
    return "://" in text or text in (".", "..", "~") or text.startswith(("/", "./", "../", "~/"))


def is_repository_directory(path: str | Path) -> bool:
    root = Path(path)
    try:
        if path == "" or (root / "repo").is_dir():  # a repository may well be named repo
            return False
        return any(all((root / name).exists() for name in names) for names in _MARKERS)
    except (OSError, ValueError):  # a name that no file can have, or no permission to look
        return False


def parse_storage_options(pairs: Iterable[str]) -> dict[str, str]:
    """`KEY=VALUE` words as a mapping; anything that looks like a secret is refused."""
    options = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise UsageError("a storage option is written KEY=VALUE", hint="endpoint_url=URL")
        if is_secret(key, value):
            raise UsageError(
                f"the storage option {key} looks like a secret, or contains one",
                hint="credentials come from the standard variables and files: AWS_ACCESS_KEY_ID, "
                "AWS_PROFILE, ~/.aws, GOOGLE_APPLICATION_CREDENTIALS",
            )
        options[key] = value
    return options


def is_secret(key: str, value: str) -> bool:
    """Whether a setting may neither be stored nor shown; a query may be a signature."""
    return (
        _SECRET.search(key) is not None
        or _has_password(value)
        or (key == "endpoint_url" and ("?" in value or "#" in value))
    )


def without_password(url: str) -> str:
    """The URL itself; `UsageError` when it would carry a secret into messages."""
    if _has_password(url):
        raise UsageError(
            "the location holds a user name or a password",
            hint="credentials come from the standard variables and files",
        )
    return url


def _has_password(url: str) -> bool:
    """Whether a URL carries `user:password@`; the message must not repeat it."""
    return _USERINFO.search(url) is not None


def hide_secrets(text: str) -> str:
    """The text of a message, without the passwords that the user typed where none belong.

    In time that is linear in the length of the text: names from a file come into messages.
    """
    return re.sub(r"\S+", lambda word: _hide_value(_hide_password(word[0])), text)


def _hide_password(word: str) -> str:
    # Behind the last @ no pattern can match; there each :// would look through all of the rest.
    head, at, rest = word.rpartition("@")
    return _USERINFO.sub(f"://{HIDDEN}@", head + at) + rest


def hide_known_secrets(text: str, environ: Mapping[str, str]) -> str:
    """For a traceback, whose texts are not ours: without the secrets of the environment."""
    known = {value for name, value in environ.items() if _SECRET.search(name)}
    for value in sorted(known, key=len, reverse=True):
        if len(value) >= _SHORTEST_SECRET and not Path(value).is_absolute():
            text = text.replace(value, HIDDEN)
    return _AUTHORIZATION.sub(rf"\1 {HIDDEN}", text)


def check_spark_conf(conf: Iterable[str]) -> None:
    """Refuse a secret: Spark would show it in the arguments of its Java process."""
    for pair in conf:
        key, _, value = pair.partition("=")
        if _SECRET_FILE.search(key):
            continue
        if is_secret(key, value) or hide_secrets(value) != value:
            raise UsageError(
                f"the Spark setting {key} looks like a secret, or contains one",
                hint="every user of this machine could read it; write it into spark-defaults.conf "
                "in the directory that SPARK_CONF_DIR names, with mode 0600",
            )


def _hide_value(word: str) -> str:
    """`secret=(hidden)` for `secret=VALUE`; the value may contain `=` itself."""
    if word == "KEY=VALUE":
        return word  # our own words
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
            "the current directory does not exist any more", hint="go to another one: cd"
        ) from None


def _directory_upward() -> str | None:
    here = working_directory()
    candidates = (here, *here.parents)
    return next((str(path) for path in candidates if is_repository_directory(path)), None)
