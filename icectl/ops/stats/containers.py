"""The containers of virtual chunks: which prefix of locations each one covers."""

from __future__ import annotations

from icectl.errors import FormatError
from icectl.repository.config import read_config
from icectl.repository.repository import Repository


def container_prefixes(repository: Repository) -> tuple[str, ...]:
    """URL prefixes of the configured containers, the longest first."""
    try:
        containers = read_config(repository).get("virtual_chunk_containers")
    except FormatError:
        return ()
    if not isinstance(containers, dict):
        return ()
    prefixes = {
        prefix
        for container in containers.values()
        if isinstance(container, dict) and isinstance(prefix := container.get("url_prefix"), str)
    }
    return tuple(sorted(prefixes, key=lambda prefix: (-len(prefix), prefix)))


def find_container(location: str, prefixes: tuple[str, ...]) -> tuple[str, bool]:
    """The container's prefix; without one, the root of the location and False."""
    for prefix in prefixes:
        if location.startswith(prefix):
            return prefix, True
    from urllib.parse import urlsplit

    parts = urlsplit(location)
    return f"{parts.scheme}://{parts.netloc}/", False
