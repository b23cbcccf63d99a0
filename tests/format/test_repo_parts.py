"""Parts of a repo info file, and its snapshots as columns: the same facts, and the same refusals."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from icectl.errors import FormatError, LimitExceededError
from icectl.format import column_writer, repo
from icectl.format.envelope import FileType, decode_envelope, encode_envelope
from icectl.format.repo import RepoFile, encode_repo
from icectl.model.ids import SnapshotId
from icectl.model.repo import (
    RepoInfo,
    SnapshotInfo,
    SnapshotInfoColumns,
    infos_by_id,
    parents_of,
    pruned_logs_of,
    times_of,
)
from icectl.model.values import MetadataItem
from tests.repository.builders import make_info, sid


def rich_info() -> RepoInfo:
    """With metadata, pruned logs, and text that is not ASCII, each on some snapshots only."""
    info = make_info(
        {number: number - 1 if number > 1 else None for number in range(1, 9)},
        branches={"main": 8, "dev": 3},
        tags={"v1": 5},
        pruned={4: [100, 101], 7: [102]},
    )
    items = (MetadataItem("größe", b"\x01\x02"), MetadataItem("n", b""))

    def enriched(entry: SnapshotInfo) -> SnapshotInfo:
        if entry.id == sid(6):
            return replace(entry, message="größer", metadata=items)
        if entry.id == sid(3):
            return replace(entry, message="", metadata=())
        return replace(entry, metadata=items[1:]) if entry.id == sid(2) else entry

    return replace(info, snapshots=tuple(map(enriched, info.snapshots)))


def written_from_columns(info: RepoInfo) -> bytes:
    decoded = RepoFile(encode_repo(info)).decode_all()
    assert isinstance(decoded.snapshots, SnapshotInfoColumns)
    return encode_repo(decoded)


@pytest.fixture
def as_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repo, "FEW_SNAPSHOTS", 0)


def test_columns_have_the_same_facts(as_columns: None) -> None:
    info = rich_info()
    decoded = RepoFile(encode_repo(info)).decode_all()
    columns, plain = decoded.snapshots, info.snapshots
    assert isinstance(columns, SnapshotInfoColumns)
    assert decoded == info and info == decoded
    assert tuple(columns) == plain
    assert columns[2:4] == plain[2:4] and columns[-1] == plain[-1]
    assert parents_of(columns) == parents_of(plain)
    assert times_of(columns) == times_of(plain)
    assert pruned_logs_of(columns) == pruned_logs_of(plain)
    assert dict(infos_by_id(columns)) == infos_by_id(plain)
    assert sid(6) in infos_by_id(columns) and sid(99) not in infos_by_id(columns)


@pytest.mark.parametrize("block", [1, 3, 100])
def test_columns_are_written(as_columns: None, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(column_writer, "BLOCK", block)
    info = rich_info()
    data = written_from_columns(info)
    monkeypatch.setattr(repo, "FEW_SNAPSHOTS", 10**9)
    assert RepoFile(data).decode_all() == info


def test_columns_out_of_order_are_written_in_order(as_columns: None) -> None:
    info = rich_info()
    decoded = RepoFile(encode_repo(info)).decode_all()
    columns = decoded.snapshots
    assert isinstance(columns, SnapshotInfoColumns) and columns.is_sorted
    payload = bytes(decode_envelope(encode_repo(info)).payload)
    first, last = info.snapshots[0].id, info.snapshots[-1].id
    swapped = payload.replace(first, b"?" * 12).replace(last, first).replace(b"?" * 12, last)
    unordered = RepoFile(encode_envelope(swapped, FileType.REPO_INFO, 2)).decode_all()
    assert isinstance(unordered.snapshots, SnapshotInfoColumns)
    assert not unordered.snapshots.is_sorted
    again = RepoFile(encode_repo(unordered)).decode_all()
    assert sorted(again.snapshots, key=str) == sorted(unordered.snapshots, key=str)
    assert isinstance(again.snapshots, SnapshotInfoColumns) and again.snapshots.is_sorted
    assert (again.branches, again.tags) == (unordered.branches, unordered.tags)


def test_parts_have_the_same_facts() -> None:
    info = rich_info()
    file = RepoFile(encode_repo(info))
    assert file.newest_update == info.latest_updates[0]
    assert {name: target.id for name, target in file.branch_targets().items()} == {
        ref.name: ref.snapshot_id for ref in info.branches
    }
    assert file.tag_targets()["v1"].parent_id == sid(4)
    assert file.latest_updates == info.latest_updates
    assert (file.branches, file.tags) == (info.branches, info.tags)


def decode(data: bytes) -> RepoInfo | None:
    try:
        decoded = RepoFile(data).decode_all()
        return replace(decoded, snapshots=tuple(decoded.snapshots))
    except LimitExceededError:
        raise
    except FormatError:
        return None


@pytest.mark.parametrize("write", [encode_repo, written_from_columns])
def test_damage_is_refused_as_it_is_one_by_one(
    as_columns: None, monkeypatch: pytest.MonkeyPatch, write: Callable[[RepoInfo], bytes]
) -> None:
    payload = bytes(decode_envelope(write(rich_info())).payload)
    chance = random.Random(17)
    refused = accepted = 0
    for _ in range(3000):
        damaged = bytearray(payload)
        for _ in range(chance.choice((1, 1, 2))):
            place = chance.randrange(len(damaged))
            damaged[place] = chance.choice((damaged[place] ^ 1 << chance.randrange(8), 0, 255))
        data = encode_envelope(bytes(damaged), FileType.REPO_INFO, 2)
        monkeypatch.setattr(repo, "FEW_SNAPSHOTS", 10**9)
        one_by_one = decode(data)
        monkeypatch.setattr(repo, "FEW_SNAPSHOTS", 0)
        assert decode(data) == one_by_one
        refused += one_by_one is None
        accepted += one_by_one is not None
    assert refused > 100 and accepted > 100


@pytest.mark.parametrize("few", [0, 10**9])
def test_parents_and_repeats_are_checked(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(repo, "FEW_SNAPSHOTS", few)
    info = rich_info()
    payload = bytes(decode_envelope(encode_repo(info)).payload)
    assert payload.count(sid(8)) == 1
    twice = payload.replace(sid(8), SnapshotId(sid(7)))
    RepoFile(encode_envelope(payload, FileType.REPO_INFO, 2)).decode_all()
    with pytest.raises(FormatError):
        RepoFile(encode_envelope(twice, FileType.REPO_INFO, 2)).decode_all()
