"""What a listing shows beside what is kept: what is missing, and what nobody needs."""

from __future__ import annotations

import numpy as np

from icectl.errors import FormatError, Remedy
from icectl.ops.gc.id_sets import IdSet
from icectl.ops.gc.listing import Listing, read_candidates
from icectl.ops.gc.objects import Garbage, ObjectKind
from icectl.ops.gc.watch import Watch
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
    # Without a manifest nobody knows what else is needed, so that its loss is never excused.
    manifest = path.startswith(ObjectKind.MANIFEST.path(""))
    return FormatError(
        f"the file is missing, and {reason}{more}",
        path=path,
        hint=Remedy("restore-or-expire") if manifest else Remedy("restore-or-known-missing"),
    )


def short_error(path: str, size: int, end: int) -> FormatError:
    return FormatError(
        f"the file has {size} bytes, and a kept manifest refers to its bytes up to {end}",
        path=path,
    )


def find_garbage(
    storage: Storage, listing: Listing, kept: IdSet, cutoff: int, watch: Watch
) -> Garbage:
    rows = np.flatnonzero(~kept.contains(listing.ids))
    return read_candidates(storage, listing, rows, watch).created_before(cutoff)
