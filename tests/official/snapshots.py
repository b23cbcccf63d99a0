"""A repository with so many snapshots that only its repo info file can be written quickly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import icechunk as ic

from icectl.format.repo import decode_repo, encode_repo
from icectl.format.snapshot import decode_snapshot, encode_snapshot
from icectl.model.ids import SnapshotId
from icectl.model.repo import Ref, SnapshotInfo
from tests.official.histories import commit, create
from tests.official.reading import open_official

HOUR = 3600 * 1_000_000


def many_snapshots(where: str | Path, n: int) -> ic.Repository:
    """`n` snapshots on main, an hour apart, without files of their own but for the tip.

    Ids are spread over the sorted list as random ones would be, yet the same in each run.
    """
    repo = create(where, 2)
    with commit(repo, "the only real commit") as root:
        root.attrs["real"] = True
    path = Path(where) / "repo"
    info = decode_repo(path.read_bytes())
    parent = info.branches[0].snapshot_id
    (start,) = (one.flushed_at for one in info.snapshots if one.id == parent)
    added = []
    for number in range(n):
        spread = (number * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "big") + number.to_bytes(
            4, "big"
        )
        message = f"hour {number}"
        flushed_at = start - (n - number) * HOUR
        added.append(SnapshotInfo(SnapshotId(spread), parent, flushed_at, message))
        parent = added[-1].id
    branches = tuple(Ref(ref.name, parent) if ref.name == "main" else ref for ref in info.branches)
    path.write_bytes(
        encode_repo(replace(info, snapshots=(*info.snapshots, *added), branches=branches))
    )
    # Only the tip has a file, which expire reads before it releases anything.
    real = next((Path(where) / "snapshots").iterdir())
    tip = replace(decode_snapshot(real.read_bytes()), id=parent)
    real.with_name(str(parent)).write_bytes(encode_snapshot(tip))
    return open_official(where)
