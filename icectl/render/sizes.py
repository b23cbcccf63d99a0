"""Format sizes and counts for humans."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_size(count: int) -> str:
    """Return text such as `512 B`, `1.5 KiB` or `20.0 GiB`."""
    if abs(count) < 1024:
        return f"{count} B"
    size = float(count)
    power = 0
    # 1023.95 would be printed as 1024.0, which is 1.0 of the next unit.
    while abs(size) >= 1023.95 and power < len(_UNITS):
        size /= 1024
        power += 1
    return f"{size:.1f} {_UNITS[power - 1]}"


def format_count(count: int, singular: str, plural: str | None = None) -> str:
    """Return text such as `1 snapshot` or `2,000 snapshots`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"
