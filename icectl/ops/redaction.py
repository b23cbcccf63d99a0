"""Locations as they are shown: in texts, JSON documents and reports, never in exported tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "(hidden)"
_USERINFO = re.compile(r"([^:/?#]*://)(?:[^/]*@|[^/@:]*:(?![0-9]*(?:/|$)).*@)", re.DOTALL)
"""`user:password@`; keys of AWS may well contain a `/`, which no port does."""
_SECRET_PARAMETER = re.compile(
    r"sig(nature)?$|token|secret|passw|credential|(access_?|api_?|^)key", re.IGNORECASE
)


def has_userinfo(location: str) -> bool:
    """Whether it carries a user name or a password."""
    return "@" in location and _USERINFO.match(location) is not None


def redact_location(location: str) -> str:
    """For output: without a password, and without the signature of a presigned URL."""
    if "@" in location and (userinfo := _USERINFO.match(location)):
        location = f"{userinfo[1]}{HIDDEN}@{location[userinfo.end() :]}"
    address, mark, query = location.partition("?")
    if not mark or "=" not in query:
        return location
    return f"{address}?{''.join(map(_redact_parameter, re.split('([&;#])', query)))}"


def redact_locations(value: Any) -> Any:
    """The same for all texts in a JSON value that are URLs."""
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
