"""Random losses of files, many at once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from icectl.model.ids import INITIAL_SNAPSHOT_ID
from tests.official.histories import commit
from tests.repair.helpers import (
    LOSSY,
    commits_work,
    findings,
    official,
    repair,
    versions,
)
from tests.repetition import repeated
from tests.validate.damage import copied_with_source

KINDS = ("snapshots", "transactions", "manifests", "chunks", "repo")


def hurt(path: Path, chance: random.Random) -> None:
    if chance.random() < 0.5:
        path.unlink()
    else:
        data = path.read_bytes()
        path.write_bytes(data[: chance.randrange(max(len(data) - 8, 1))])


@pytest.mark.parametrize("seed", repeated(range(6), range(6, 12)))
def test_random_losses(seed: int, whole: Path, tmp_path: Path) -> None:
    """Everything is mended in one run, or in a second one that sees what the first uncovered."""
    where = copied_with_source(whole, tmp_path / "repo")
    with commit(official(where), "on dev", branch="dev") as root:
        root.create_group("on-dev")
    before = versions(official(where))
    chance = random.Random(seed)
    for kind in KINDS:
        files = [where / "repo"] if kind == "repo" else sorted((where / kind).iterdir())
        files = [path for path in files if path.name != str(INITIAL_SNAPSHOT_ID)]
        count = chance.choice((0, 0, 1, 1, 2, 3))
        for path in chance.sample(files, min(count, len(files))):
            hurt(path, chance)
    done = repair(where, LOSSY)
    steps = [*done.steps]
    if done.left:
        done = repair(where, LOSSY)
        steps += done.steps
    assert done.left == (), done
    assert findings(where) == []
    repo = official(where)
    after = versions(repo)
    losses = [loss for step in steps for loss in step.loses]
    restored = any(step.action == "restore_repo" for step in steps)
    for id_, expected in before.items():
        if id_ in after:
            assert after[id_] == expected
        else:
            assert restored or any(id_ in loss for loss in losses)
    commits_work(where)
