"""Resolve a REF that a user typed to a snapshot.

A REF is a branch, a tag, a snapshot id, a unique prefix of one, `branch:NAME` or `tag:NAME`;
each may be followed by `~N` for the Nth ancestor or `^` for the parent. A range is `A..B`, what
led from A to B, or `A...B`, what B has since their last common ancestor.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from icectl.errors import RefNotFoundError, Remedy, UsageError
from icectl.model.ids import ALPHABET, SnapshotId
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.names import nearest_hint

if TYPE_CHECKING:
    from icectl.repository.repository import Repository

DEFAULT_REF = f"branch:{DEFAULT_BRANCH}"
"""The default REF of a command, also if a tag has the same name."""
SHORTEST_PREFIX = 4
LONGEST_ID = 26
SHOWN_CANDIDATES = 5
_ANCESTOR = re.compile(r"(?P<base>.+)(?:\^|~(?P<count>[0-9]{0,4000}))", re.DOTALL)
_RANGE = re.compile(r"(?P<from>.*?)(?P<dots>\.\.\.?)(?P<to>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ResolvedRef:
    snapshot_id: SnapshotId
    kind: Literal["branch", "tag", "snapshot"]
    name: str | None
    """The branch or tag; None when the snapshot was named by its id or as an ancestor."""


def resolve_ref(repository: Repository, text: str) -> ResolvedRef:
    base, count = text, 0
    # A name may contain `~` itself: the longest one that exists is meant.
    while (found := _resolve_name(repository, base)) is None:
        match = _ANCESTOR.fullmatch(base)
        if match is None:
            raise _not_found(repository, base)
        base = match["base"]
        count += int(match["count"] or 1)
    if base == text:
        return found
    older = islice(repository.ancestry(found.snapshot_id), min(count, sys.maxsize), None)
    ancestor = next(older, None)
    if ancestor is None:
        raise RefNotFoundError(
            f"{base} has fewer than {count} ancestors", hint=Remedy("list-ancestors", {"ref": base})
        )
    return ResolvedRef(ancestor.id, "snapshot", None)


@dataclass(frozen=True, slots=True)
class RefRange:
    from_: str
    to: str
    from_merge_base: bool
    """Three dots: begin at the last common ancestor of the two."""


def parse_range(repository: Repository, text: str) -> RefRange | None:
    """`A..B` or `A...B`, where a missing end is main; None for anything else, such as a name."""
    match = _RANGE.fullmatch(text)
    if match is None or text in repository.branches() or text in repository.tags():
        return None
    from_, to = match["from"] or DEFAULT_REF, match["to"] or DEFAULT_REF
    return RefRange(from_, to, match["dots"] == "...")


def _resolve_name(repository: Repository, text: str) -> ResolvedRef | None:
    branches, tags = repository.branches(), repository.tags()
    if text in branches and text in tags:
        raise RefNotFoundError(
            f"{text} is both a branch and a tag", hint=f"write branch:{text} or tag:{text}"
        )
    if text in branches:
        return ResolvedRef(branches[text], "branch", text)
    if text in tags:
        return ResolvedRef(tags[text], "tag", text)
    kind, colon, name = text.partition(":")
    if colon and kind == "branch" and name in branches:
        return ResolvedRef(branches[name], "branch", name)
    if colon and kind == "tag" and name in tags:
        return ResolvedRef(tags[name], "tag", name)
    return _resolve_prefix(repository, text.upper())


def _resolve_prefix(repository: Repository, prefix: str) -> ResolvedRef | None:
    if not SHORTEST_PREFIX <= len(prefix) <= LONGEST_ID or not set(prefix) <= set(ALPHABET):
        return None
    candidates = repository.find_snapshots(prefix)
    if len(candidates) > 1:
        shown = ", ".join(str(candidate) for candidate in candidates[:SHOWN_CANDIDATES])
        more = len(candidates) - SHOWN_CANDIDATES
        raise RefNotFoundError(
            f"{prefix} is the beginning of {len(candidates)} snapshot ids",
            hint=f"give more characters: {shown}" + (f" and {more} more" if more > 0 else ""),
        )
    return ResolvedRef(candidates[0], "snapshot", None) if candidates else None


def _not_found(repository: Repository, text: str) -> RefNotFoundError | UsageError:
    if "://" in text or text.startswith(("./", "../", "/", "~/")) or _is_directory(text):
        return UsageError(
            f"{text} is a location, and a branch, tag or snapshot id is expected here",
            hint=Remedy("name-repository", {"location": text}),
        )
    kind, colon, name = text.partition(":")
    if colon and kind in ("branch", "tag"):
        known = repository.branches() if kind == "branch" else repository.tags()
        shown = name or repr(name)
        return RefNotFoundError(f"there is no {kind} {shown}", hint=nearest_hint(name, known))
    if text in repository.deleted_tags():
        return RefNotFoundError(f"the tag {text} was deleted")
    prefix = text.upper()
    is_short = 0 < len(prefix) < SHORTEST_PREFIX and set(prefix) <= set(ALPHABET)
    if is_short and repository.find_snapshots(prefix):
        return RefNotFoundError(
            f"{text} is too short for a snapshot id",
            hint=f"give at least {SHORTEST_PREFIX} characters of it",
        )
    hint = nearest_hint(text, [*repository.branches(), *repository.tags()])
    return RefNotFoundError(
        f"there is no branch, tag or snapshot {text or repr(text)}",
        hint=hint or Remedy("list-refs"),
    )


def _is_directory(text: str) -> bool:
    try:
        return bool(text) and Path(text).is_dir()
    except (OSError, ValueError):
        return False
