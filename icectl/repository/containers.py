"""The containers of virtual chunks: resolve a location, and find its container.

A location is an absolute URL, or `vcc://NAME/path`, relative to the container of that name.
"""

from __future__ import annotations

from dataclasses import dataclass

from icectl.errors import FormatError
from icectl.model.redaction import redact_location
from icectl.repository.config import read_config
from icectl.repository.repository import Repository

RELATIVE = "vcc://"


@dataclass(frozen=True, slots=True)
class Containers:
    prefixes: tuple[str, ...]
    """URL prefixes, the longest first."""
    prefix_of: dict[str, str]
    """By the name of a container that has one."""

    def resolve(self, location: str) -> str:
        """The absolute URL; a relative location without its container stays as it is."""
        if not location.startswith(RELATIVE):
            return location
        name, slash, path = location.removeprefix(RELATIVE).partition("/")
        prefix = self.prefix_of.get(name) if slash else None
        return location if prefix is None else prefix + path

    def find(self, location: str) -> tuple[str, bool]:
        """The prefix of the container that covers it; else its root, fit for output, and False."""
        location = self.resolve(location)
        decoded = _unquote(location) if "%" in location else location
        for prefix in self.prefixes:
            if location.startswith(prefix) or decoded.startswith(prefix):
                return prefix, True
        return split_location(redact_location(location))[0], False


def read_containers(repository: Repository) -> Containers:
    """The containers of the stored configuration; none if it cannot be read."""
    try:
        stored = read_config(repository).get("virtual_chunk_containers")
    except FormatError:
        stored = None
    prefixes = set()
    prefix_of = {}
    for container in stored.values() if isinstance(stored, dict) else ():
        prefix = container.get("url_prefix") if isinstance(container, dict) else None
        if not isinstance(prefix, str):
            continue
        prefix = prefix if prefix.endswith("/") else f"{prefix}/"
        prefixes.add(prefix)
        if isinstance(container.get("name"), str):
            prefix_of[container["name"]] = prefix
    return Containers(tuple(sorted(prefixes, key=lambda prefix: (-len(prefix), prefix))), prefix_of)


def split_location(location: str) -> tuple[str, str]:
    """The root of the storage, and the path in it: decoded, without query and fragment."""
    scheme, _, rest = location.partition("://")
    host, _, path = rest.partition("/")
    return f"{scheme}://{host}/", _unquote(path.partition("#")[0].partition("?")[0]).lstrip("/")


def _unquote(text: str) -> str:
    from urllib.parse import unquote  # few repositories need it

    return unquote(text)
