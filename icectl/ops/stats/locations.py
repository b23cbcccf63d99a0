"""Numbers in place of the locations of virtual chunks, equal in every process."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icectl.repository.containers import Containers


class LocationKeys:
    """Remembers the key of each location and of its container; forgets them when pickled."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._containers: dict[tuple[str, bool], int] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return LocationKeys, ()

    def find(self, location: str, containers: Containers) -> tuple[int, int]:
        """The key of the location, and the number of its container in `containers`."""
        known = self._known.get(location)
        if known is None:
            found = containers.find(location)
            number = self._containers.setdefault(found, len(self._containers))
            # One number for both: there may be millions of locations.
            known = number << 64 | hash_text(containers.resolve(location))
            self._known[location] = known
        return known & (2**64 - 1), known >> 64

    @property
    def containers(self) -> list[tuple[str, bool]]:
        """The prefix of each container, and whether it is configured."""
        return list(self._containers)


def hash_text(text: str) -> int:
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")
