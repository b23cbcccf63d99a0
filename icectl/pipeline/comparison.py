"""A listing compared with the kept ids: missing objects, short objects and garbage."""

from __future__ import annotations

import numpy as np

from icectl.checks.listing import missing, wrong_chunk_size
from icectl.checks.problem import error_of
from icectl.errors import FormatError, Remedy
from icectl.pipeline.id_columns import IdSet
from icectl.pipeline.listings import Listing, read_candidates
from icectl.pipeline.objects import Garbage, ObjectKind
from icectl.pipeline.progress import Progress
from icectl.storage.contract import Storage

MISSING_CHUNK = "a kept manifest refers to it"


def check_present(
    kept: IdSet, listing: Listing, known_missing: frozenset[str], reason: str
) -> None:
    absent = ~listing.ids.contains(kept)
    if not absent.any():
        return
    paths = [listing.kind.path(name) for name in kept[absent].to_names()]
    unknown = [path for path in paths if path not in known_missing]
    if unknown:
        raise missing_error(unknown[0], len(unknown), reason)


def missing_error(path: str, count: int, reason: str) -> FormatError:
    more = f" ({count - 1} more are missing)" if count > 1 else ""
    # Without a manifest it is unknown what else is needed, so its loss is never excused.
    is_manifest = path.startswith(ObjectKind.MANIFEST.path(""))
    hint = Remedy("restore-or-expire") if is_manifest else Remedy("restore-or-known-missing")
    return error_of(missing(path, f"{reason}{more}"), hint)


def short_error(path: str, size: int, end: int) -> FormatError:
    return error_of(wrong_chunk_size(path, size, end))


def find_garbage(
    storage: Storage, listing: Listing, kept: IdSet, cutoff: int, progress: Progress
) -> Garbage:
    rows = np.flatnonzero(~kept.contains(listing.ids))
    return read_candidates(storage, listing, rows, progress).created_before(cutoff)
