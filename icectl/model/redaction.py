"""Recognize and hide secrets: in locations of a repository, in settings and in messages.

Exported tables keep their locations unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "(hidden)"
_USERINFO = re.compile(r"([^:/?#]*://)(?:[^/]*@|[^/@:]*:(?![0-9]*(?:/|$)).*@)", re.DOTALL)
"""`user:password@`. AWS secret keys may contain a `/`; ports do not."""
_SECRET_PARAMETER = re.compile(
    r"sig(nature)?$|token|secret|passw|credential|(access_?|api_?|^)key", re.IGNORECASE
)
_SECRET_NAME = re.compile(
    r"secret|password|passwd|credentials?$|access_?key|account_?key|private_?key|api_?key"
    r"|token|connection_?string|authorization|(^|[._])(key|auth)$",
    re.IGNORECASE,
)
_TYPED_USERINFO = re.compile(r"://(?:[^\s/]*@|[^\s/@:]*:(?![0-9]*(?:/|$))\S*@)")
"""The same anywhere in a word that a user typed."""
_AUTHORIZATION = re.compile(r"\b(Bearer|Basic) +[^\s'\"]+", re.IGNORECASE)
_SHORTEST_SECRET = 6
"""Shorter values occur by chance in many texts, and hiding them would hide too much."""


def has_userinfo(location: str) -> bool:
    """Return whether the location contains a user name or a password."""
    return "@" in location and _USERINFO.match(location) is not None


def redact_location(location: str) -> str:
    """Return the location without its password and the signature of a presigned URL."""
    if "@" in location and (userinfo := _USERINFO.match(location)):
        location = f"{userinfo[1]}{HIDDEN}@{location[userinfo.end() :]}"
    address, mark, query = location.partition("?")
    if not mark or "=" not in query:
        return location
    return f"{address}?{''.join(map(_redact_parameter, re.split('([&;#])', query)))}"


def redact_locations(value: Any) -> Any:
    """Redact all URLs in a JSON value."""
    if isinstance(value, str):
        return redact_location(value) if "://" in value else value
    if isinstance(value, list | tuple):
        return [redact_locations(element) for element in value]
    if isinstance(value, Mapping):
        return {redact_locations(key): redact_locations(inner) for key, inner in value.items()}
    return value


def _redact_parameter(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}={HIDDEN}" if equals and _SECRET_PARAMETER.search(name) else parameter


def is_secret(key: str, value: str) -> bool:
    """Return whether a setting must not be stored or shown; a query may be a signature."""
    return (
        _SECRET_NAME.search(key) is not None
        or _TYPED_USERINFO.search(value) is not None
        or (key == "endpoint_url" and ("?" in value or "#" in value))
    )


def hide_secrets(text: str) -> str:
    """Return the text of a message without passwords that the user typed by mistake.

    The time is linear in the length of the text, because messages contain names from files.
    """
    return re.sub(r"\S+", lambda word: _hide_value(_hide_password(word[0])), text)


def _hide_password(word: str) -> str:
    # No pattern can match after the last @; there, each :// would scan the entire rest.
    head, at, rest = word.rpartition("@")
    return _TYPED_USERINFO.sub(f"://{HIDDEN}@", head + at) + rest


def hide_known_secrets(text: str, environ: Mapping[str, str]) -> str:
    """Remove the secrets of the environment from a traceback, which may contain any text."""
    known = {value for name, value in environ.items() if _SECRET_NAME.search(name)}
    for value in sorted(known, key=len, reverse=True):
        if len(value) >= _SHORTEST_SECRET and not value.startswith("/"):
            text = text.replace(value, HIDDEN)
    return _AUTHORIZATION.sub(rf"\1 {HIDDEN}", text)


def _hide_value(word: str) -> str:
    """Replace `secret=VALUE` by `secret=(hidden)`; the value may contain `=`."""
    if word == "KEY=VALUE":
        return word  # part of the message
    position = 0
    for key in word.split("=")[:-1]:
        position += len(key) + 1
        if _SECRET_NAME.search(key):
            return word[:position] + HIDDEN
    return word
