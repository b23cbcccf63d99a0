"""The transaction logs that stay: each is there, and is the one that its name says."""

from __future__ import annotations

from collections.abc import Iterator

from icectl.errors import FormatError, ObjectNotFoundError, StorageError, UnsupportedError
from icectl.format.transaction_log import decode_transaction_log, decode_transaction_log_id
from icectl.ops.gc.id_sets import IdSet
from icectl.ops.gc.listing import Listing
from icectl.ops.gc.watch import Watch
from icectl.storage.bounded import map_on_threads
from icectl.storage.contract import Storage

HEAD = 2**18
"""The first zstd block ends here at the latest, and the id is in it."""
READERS = 16


def check_log_ids(
    storage: Storage, listing: Listing, kept: IdSet, known_missing: frozenset[str], watch: Watch
) -> None:
    """`FormatError` when a kept log that is listed has the id of another, or none."""
    rows = listing.ids.find(kept)
    rows = rows[rows >= 0]
    names = listing.ids[rows].to_names()
    if listing.size is None:
        told = storage.read_sizes_and_times(listing.kind.directory, names)
        sizes = [0 if pair is None else pair[0] for pair in told]
    else:
        sizes = listing.size[rows].tolist()
    paths = {
        path: size
        for path, size in zip(map(listing.kind.path, names), sizes, strict=True)
        if path not in known_missing
    }
    with watch.phase("reading transaction logs", len(paths)) as counter:
        for path, data in _read_heads(storage, paths):
            watch.check_time()
            _check_id(storage, path, data)
            counter.advance()


def _read_heads(storage: Storage, sizes: dict[str, int]) -> Iterator[tuple[str, bytes]]:
    """The first bytes of large files, and the others whole."""
    for path, data in storage.read_many([path for path, size in sizes.items() if size <= HEAD]):
        if isinstance(data, ObjectNotFoundError):
            raise FormatError("the transaction log is missing", path=path)
        if isinstance(data, StorageError):
            raise data
        yield path, data
    large = [path for path, size in sizes.items() if size > HEAD]
    if not large:
        return
    heads = map_on_threads(
        lambda path: (path, storage.read_range(path, 0, HEAD)),
        large,
        workers=READERS,
        ahead=2 * READERS,
    )
    yield from heads


def _check_id(storage: Storage, path: str, data: bytes) -> None:
    try:
        found = decode_transaction_log_id(data, is_whole=len(data) != HEAD)
        if found is None:
            found = decode_transaction_log(storage.read(path)).id
    except FormatError as error:
        raise error.at(path) from None
    except UnsupportedError as error:
        raise FormatError(error.message, path=path) from None
    if str(found) != path.rpartition("/")[2]:
        raise FormatError(f"the file says that it is {found}", path=path)
