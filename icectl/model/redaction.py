"""Remove secrets from locations in text, JSON documents and reports.

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
