"""`icectl __complete KIND ...`: what the completion scripts ask for at a press of Tab.

One candidate per line. Whatever goes wrong gives no candidates: a completion must never
print an error into the line that the user is typing. Names come from a repository, that is
from others; one that a shell would not take literally is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from icectl.cli.locations import find_location

if TYPE_CHECKING:
    from icectl.repository.repository import Repository

_HARMLESS = re.compile(r"\w[\w./@+-]*")
Source = Callable[[list[str], Mapping[str, str]], Iterable[str]]


def complete(arguments: list[str], environ: Mapping[str, str]) -> Iterable[str]:
    """`KIND [the words of the command line so far]`, where `-r LOCATION` may stand."""
    source = _SOURCES.get(arguments[0]) if arguments else None
    if source is None:
        return []
    try:
        names = sorted(source(arguments[1:], environ))
    except Exception:
        return []
    return [name for name in names if _HARMLESS.fullmatch(name)]


def _refs(words: list[str], environ: Mapping[str, str]) -> Iterable[str]:
    repository = _open(words, environ)
    return {*repository.branches(), *repository.tags()}


def _branches(words: list[str], environ: Mapping[str, str]) -> Iterable[str]:
    return _open(words, environ).branches()


def _tags(words: list[str], environ: Mapping[str, str]) -> Iterable[str]:
    return _open(words, environ).tags()


def _remotes(_words: list[str], environ: Mapping[str, str]) -> Iterable[str]:
    from icectl.cli.config_file import read_config_file

    return read_config_file(environ).repositories


def _open(words: list[str], environ: Mapping[str, str]) -> Repository:
    from icectl.repository.open import open_repository
    from icectl.storage.open import open_storage

    repo = _option_values(words, "-r", "--repo")
    options = _option_values(words, "--storage-option")
    location = find_location(repo[-1] if repo else None, options, environ)
    return open_repository(open_storage(location.url, location.storage_options))


def _option_values(words: list[str], *names: str) -> list[str]:
    """`--repo X` and `--repo=X`; the last word is still being typed and names nothing."""
    values = [value for name, value in pairwise(words) if name in names]
    for word in words:
        name, separator, value = word.partition("=")
        if separator and name in names:
            values.append(value)
    return values


_SOURCES: dict[str, Source] = {
    "refs": _refs,
    "branches": _branches,
    "tags": _tags,
    "remotes": _remotes,
}
