"""The id of a transaction log from the first bytes of its file."""

from __future__ import annotations

import numpy as np
import pytest

from icectl.errors import FormatError
from icectl.format.envelope import FileType, decode_envelope, encode_envelope
from icectl.format.transaction_log import (
    decode_transaction_log,
    decode_transaction_log_id,
    encode_transaction_log,
)
from icectl.model.ids import NodeId, SnapshotId
from icectl.model.transaction_log import ArrayUpdatedChunks, TransactionLog
from icectl.ops.gc.reachability import LOG_HEAD

ID = SnapshotId(bytes(range(1, 13)))


def log_of(count: int) -> bytes:
    coordinates = np.random.default_rng(0).integers(0, 2**32, (count, 3), np.uint32)
    chunks = (ArrayUpdatedChunks(NodeId(bytes(8)), coordinates),) if count else ()
    return encode_transaction_log(TransactionLog(2, ID, (), (), (), (), (), (), chunks, (), None))


@pytest.mark.parametrize("count", [0, 10, 200_000])
def test_head(count: int) -> None:
    data = log_of(count)
    assert decode_transaction_log(data).id == decode_transaction_log_id(data[:LOG_HEAD]) == ID
    assert decode_transaction_log_id(data, is_whole=True) == ID
    assert (len(data) > LOG_HEAD) == (count > 10)


def test_too_little() -> None:
    data = log_of(200_000)
    assert decode_transaction_log_id(data[:1000]) is None
    assert decode_transaction_log_id(data[:39]) is None
    whole = log_of(10)
    for size in range(39, len(whole)):
        assert decode_transaction_log_id(whole[:size]) in (None, ID)


def test_not_packed() -> None:
    data = log_of(10)
    plain = data[:38] + b"\0" + bytes(decode_envelope(data).payload)
    assert decode_transaction_log_id(plain) == ID


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93" * 50,
        log_of(0)[:20],
        encode_envelope(b"12345678" * 8, FileType.TRANSACTION_LOG, 2),
        encode_envelope(bytes(decode_envelope(log_of(0)).payload), FileType.MANIFEST, 2),
    ],
)
def test_not_a_log(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_transaction_log_id(data, is_whole=True)
