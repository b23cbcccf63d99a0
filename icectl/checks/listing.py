"""Objects that do not exist, or whose size is not what their users need. Pure."""

from __future__ import annotations

from icectl.checks import rules
from icectl.checks.problem import Problem
from icectl.repository.layout import DRAFT, STANDARD

_MISSING = {
    directory: rule
    for layout in (STANDARD, DRAFT)
    for directory, rule in (
        (layout.snapshots, rules.SNAPSHOT_MISSING),
        (layout.transactions, rules.LOG_MISSING),
        (layout.manifests, rules.MANIFEST_MISSING),
        (layout.chunks, rules.CHUNK_MISSING),
    )
}


def missing(object_: str, detail: str, node: str | None = None) -> Problem:
    return Problem(_MISSING[object_.partition("/")[0]], object_, detail, node)


def wrong_chunk_size(object_: str, size: int | None, end: int, node: str | None = None) -> Problem:
    """For a chunk file whose size is not the number of bytes that references need.

    The size is None if the file does not exist.
    """
    if size is None:
        return missing(object_, f"references need {end} bytes of it", node)
    rule = rules.CHUNK_SHORT if size < end else rules.CHUNK_LONG
    return Problem(rule, object_, f"it has {size} bytes, references need {end}", node)
