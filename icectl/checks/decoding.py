"""Decode the bytes of a chunk with the codecs of a zarr.json."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from icectl import limits
from icectl.checks import rules
from icectl.checks.bounded_codecs import budget, decoded_bytes
from icectl.checks.manifest import ArrayUse
from icectl.checks.node import regular_chunks
from icectl.checks.problem import Problem
from icectl.errors import LimitExceededError, Remedy, UsageError
from icectl.model.manifest import Manifest, RefKind
from icectl.repository.layout import STANDARD

Decoder = Callable[[bytes], str | None]
"""The fault in the bytes of a chunk, or None; `LimitExceededError` if it is not decoded."""


def check_decoding_possible() -> None:
    if importlib.util.find_spec("zarr") is None:
        raise UsageError(
            "decoding needs the package zarr, which is not installed",
            hint=Remedy("install-zarr"),
        )


def check_inline(manifest: Manifest, path: str, uses: Collection[ArrayUse]) -> Iterator[Problem]:
    """Decode the inline chunks of the manifest, for arrays whose `zarr.json` is given.

    Sampling does not skip them, since their bytes have been read anyway.
    """
    asked = (use for use in uses if use.zarr_jsons)
    # The first of several paths, as in other findings about a manifest.
    by_node = {use.node_id: use for use in sorted(asked, key=lambda use: use.path, reverse=True)}
    for array in manifest.arrays:
        use = by_node.get(array.node_id)
        rows = np.flatnonzero(array.refs.kind == RefKind.INLINE).tolist()
        if use is None or not rows:
            continue
        decode, problems = decoder_of(use.zarr_jsons, use.path)
        yield from problems
        if decode is None:
            continue
        bad = []
        for row in rows:
            try:
                fault = decode(array.refs.content[row])
            except LimitExceededError as error:
                yield Problem(rules.CHUNK_TOO_LARGE, path, error.reason, use.path)
                break
            if fault is not None:
                bad.append((row, fault))
        if bad:
            row, fault = bad[0]
            more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
            chunk = array.refs.coordinates[row].tolist()
            detail = f"the inline chunk {chunk}{more}: {fault}"
            yield Problem(rules.CHUNK_UNDECODABLE, path, detail, use.path)


def decoder_of(documents: Sequence[bytes], path: str) -> tuple[Decoder | None, list[Problem]]:
    """The decoder of an array; None, and a problem, if its codecs are not available.

    Bytes that one of the documents decodes are intact: it is not known which versions use them.
    Otherwise the fault is that of the newest document, the last one.
    """
    decoders = []
    problems = []
    for document in reversed(documents):
        try:
            decoders.append(make_decoder(document))
        except Exception as error:  # whatever a codec raises about its configuration
            detail = _describe(error)
            problem = Problem(rules.CODECS_UNKNOWN, STANDARD.chunks, detail, path)
            problems.append(problem)
    if problems:
        return None, problems  # any chunk may need the codecs that are not available

    def judge(data: bytes) -> str | None:
        faults = []
        for decode in decoders:
            try:
                decode(data)
            except LimitExceededError:
                raise
            except Exception as error:  # whatever a codec raises about damaged bytes
                faults.append(_describe(error))
            else:
                return None
        return faults[0]

    return judge, []


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def make_decoder(document: bytes) -> Callable[[bytes], None]:
    """Decodes one chunk as zarr does: as the only chunk of an array in memory."""
    import zarr
    from zarr.core.buffer import cpu
    from zarr.storage import MemoryStore

    metadata: dict[str, Any] = json.loads(document)
    shape = regular_chunks(metadata)
    if shape is None:
        raise ValueError(f"the chunk grid {metadata.get('chunk_grid')} is not regular")
    metadata |= {
        "shape": shape,
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    }
    key = "/".join(["c", *("0" for _ in shape)])
    contents: dict[str, Any] = {
        "zarr.json": cpu.Buffer.from_bytes(json.dumps(metadata).encode()),
    }
    left = budget()
    array: Any = zarr.open_array(MemoryStore(contents), mode="r")
    size = decoded_bytes(array.shape, array.metadata.data_type)

    def decode(data: bytes) -> None:
        most = max(limits.CHUNK_BYTES_ALWAYS, limits.CHUNK_RATIO * len(data))
        limits.require("CHUNK_RATIO", size or 0, most, f"{len(data):,} bytes decode to")
        contents[key] = cpu.Buffer.from_bytes(data)
        with left.lock:
            left.left = 2 * most  # a chain of codecs may decompress in two steps
            array[...]

    return decode
