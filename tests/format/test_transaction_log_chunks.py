"""Chunk coordinates of a transaction log: the same content and refusals for few and for many."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from icectl.errors import FormatError, UnsupportedError
from icectl.format import transaction_log
from icectl.format.transaction_log import decode_transaction_log, encode_transaction_log
from icectl.model.transaction_log import TransactionLog
from tests.format.damaged_files import MUTATIONS, mutations
from tests.format.strategies import FAST, logs


def decoded(data: bytes, few_chunks: int, patch: pytest.MonkeyPatch) -> TransactionLog | None:
    patch.setattr(transaction_log, "FEW_CHUNKS", few_chunks)
    try:
        return decode_transaction_log(data)
    except (FormatError, UnsupportedError):
        return None


@FAST
@given(logs)
def test_arbitrary_logs(log: TransactionLog) -> None:
    data = encode_transaction_log(log)
    with pytest.MonkeyPatch.context() as patch:
        assert decoded(data, -1, patch) == decoded(data, 100, patch) == decode_transaction_log(data)


def test_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.official import random_history

    random_history(tmp_path, 1, 30)
    largest = sorted((tmp_path / "transactions").iterdir(), key=lambda file: -file.stat().st_size)
    for file in largest[:3]:
        for damaged in mutations(file.name, file.read_bytes(), MUTATIONS):
            assert decoded(damaged, -1, monkeypatch) == decoded(damaged, 1000, monkeypatch)
