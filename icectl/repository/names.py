"""Names of branches and tags: which may be created, and suggestions for unknown ones.

The official writer takes any text in spec version 2, and anything without `/` in version 1,
where a name is part of a path. We refuse on creation only what no command line or path could
carry; names that exist already are always readable and deletable.
"""

from __future__ import annotations

from collections.abc import Iterable

from icectl.errors import UsageError

# In version 1 the official object store layer percent-encodes these on some backends and not
# on others, so that the same name would be a different file depending on the storage.
_UNSAFE_IN_PATHS = frozenset('/\\{^}%`]">[~<#|*?')


def check_new_name(name: str, kind: str, spec_version: int) -> None:
    """`UsageError` when a `kind` ("branch" or "tag") of this name must not be created."""
    if not name:
        raise UsageError(f"a {kind} needs a name", hint="give at least one character")
    if any(not character.isprintable() for character in name):
        raise UsageError(
            f"the {kind} name {name!r} has a character that cannot be printed",
            hint="use letters, digits, spaces and punctuation",
        )
    if spec_version >= 2:
        return
    unsafe = sorted({c for c in name if c in _UNSAFE_IN_PATHS or not c.isascii()})
    if unsafe or len(name) > 200:
        reason = f"contains {' '.join(unsafe)}" if unsafe else "is longer than 200 characters"
        raise UsageError(
            f"the {kind} name {name!r} {reason}",
            hint="in spec version 1 a name is part of a path: use plain ASCII without / and ~",
        )


def nearest_hint(name: str, known: Iterable[str]) -> str | None:
    """A hint with the known names that look like `name`, if there are any."""
    import difflib

    lowered = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(lowered[match] for match in near)}?" if near else None
