"""Flip bits of a repository and plan a garbage collection after each flip."""

from __future__ import annotations

import random
from pathlib import Path

from icectl.errors import IcectlError
from icectl.ops.gc.plan import plan_gc
from icectl.ops.gc.run import GcOptions, plan_run
from icectl.pipeline.engine import ChooseEngine
from icectl.pipeline.local_engine import local_engine
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from tests.engines.comparisons import planned
from tests.gc.repositories import files, now
from tests.official import copied

KINDS = ("repo", "manifests", "snapshots", "transactions", "refs")


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def targets(repository: Path) -> list[Path]:
    found = [repository / "repo"] if (repository / "repo").exists() else []
    for directory in KINDS[1:]:
        found += sorted(path for path in (repository / directory).rglob("*") if path.is_file())
    return [path for path in found if path.stat().st_size]


def check_flips(
    source: Path,
    tmp_path: Path,
    number: int,
    seed: int,
    kinds: tuple[str, ...] = KINDS,
    choose_engine: ChooseEngine = local_engine,
) -> tuple[int, int]:
    """The number of flips that were refused, and of plans that were still made.

    Tries more than `number` flips if all of them were refused, or none.
    """
    mine = copied(source, tmp_path / "repo")
    chance = random.Random(seed)
    live = files(mine) - planned(plan_gc(open_repository(LocalStorage(mine)), now())).keys()
    by_kind = [
        [path for path in targets(mine) if path.relative_to(mine).parts[0] == kind]
        for kind in kinds
    ]
    by_kind = [paths for paths in by_kind if paths]
    refused = made = 0
    for tried in range(10 * number):
        if tried >= number and refused and made:
            break
        path = chance.choice(chance.choice(by_kind))
        whole = path.read_bytes()
        bit = chance.randrange(len(whole) * 8)
        flip(path, bit)
        try:
            run = plan_run(LocalStorage(mine), GcOptions(now(), choose_engine=choose_engine))
        except IcectlError as error:
            assert error.exit_code in (10, 13, 14, 15, 16), error
            refused += 1
        else:
            made += 1
            lost = planned(run.plan).keys() & live
            assert not lost, f"{path.relative_to(mine)} bit {bit}: {sorted(lost)[:3]}"
        path.write_bytes(whole)
    return refused, made
