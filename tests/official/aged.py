"""A repository with years of daily maintenance behind it."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from pathlib import Path

import icechunk as ic

from tests.official.histories import commit, create

KEPT_DAYS = 30


def daily_maintenance(where: str | Path, days: int, *, gc: bool) -> ic.Repository:
    """Each day has a commit to one chunk and an expiration that keeps the last 30 commits.

    With `gc`, each day ends with a garbage collection; without, all garbage is still there.
    """
    repo = create(where, 2)
    with commit(repo, "day 0") as root:
        root.create_array("temperature", shape=(KEPT_DAYS, 16), chunks=(1, 16), dtype="i8")
    moments: deque[datetime] = deque(maxlen=KEPT_DAYS)
    for day in range(1, days + 1):
        moments.append(datetime.now(UTC))
        with commit(repo, f"day {day}", metadata={"day": day}) as root:
            root["temperature"][day % KEPT_DAYS] = day
        repo.expire_snapshots(moments[0])
        if gc:
            repo.garbage_collect(datetime.now(UTC))
    return repo
