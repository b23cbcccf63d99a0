"""The same deletions as the official package, and every remaining version reads bit for bit."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from icectl.cli.main import run
from icectl.storage.local import LocalStorage
from tests.gc.repositories import (
    abandon_session,
    collect,
    files,
    live,
    messy_repository,
    now,
    official_gc,
    random_repository,
    set_times,
)
from tests.official import all_snapshot_ids, build_zoo, built, copied, open_official
from tests.official.histories import commit, create
from tests.repetition import repeated


def check_like_official(source: Path, tmp_path: Path) -> None:
    ours, theirs = copied(source, tmp_path / "ours"), copied(source, tmp_path / "theirs")
    before = live(source)
    cutoff = now()
    official_gc(theirs, cutoff)
    run, deleted = collect(ours, cutoff)
    assert files(ours) == files(theirs)
    assert not deleted.failures
    assert run.plan.num_objects == len(files(source)) - len(files(ours))
    assert live(ours) == before
    again, _ = collect(ours)
    assert again.plan.num_objects == 0
    official_gc(ours)
    assert files(ours) == files(theirs)
    assert live(ours) == before


@pytest.mark.parametrize("spec_version", [1, 2])
def test_messy_repository(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, spec_version: int
) -> None:
    source = built(tmp_path_factory, messy_repository, spec_version)
    check_like_official(source, tmp_path)


@pytest.mark.parametrize("spec_version", [1, 2])
def test_zoo(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, spec_version: int) -> None:
    check_like_official(built(tmp_path_factory, build_zoo, spec_version), tmp_path)


@pytest.mark.parametrize("seed", repeated(range(2), range(2, 4)))
@pytest.mark.parametrize("spec_version", [1, 2])
def test_random_repository(tmp_path: Path, seed: int, spec_version: int) -> None:
    random_repository(tmp_path / "source", 1000 + seed, 40, spec_version)
    check_like_official(tmp_path / "source", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("spec_version", [1, 2])
def test_long_random_repository(tmp_path: Path, seed: int, spec_version: int) -> None:
    random_repository(tmp_path / "source", 2000 + seed, 120, spec_version)
    check_like_official(tmp_path / "source", tmp_path)


@pytest.mark.parametrize("spec_version", [1, 2])
def test_cutoff_in_the_middle(tmp_path: Path, spec_version: int) -> None:
    """What is younger than the cutoff stays, by the same clock."""
    random_repository(tmp_path / "source", 7, 40, spec_version)
    storage = LocalStorage(tmp_path / "source")
    times = sorted(info.created_at or 0 for info in storage.list("snapshots"))
    cutoff = times[len(times) // 2]
    ours = copied(tmp_path / "source", tmp_path / "ours")
    theirs = copied(tmp_path / "source", tmp_path / "theirs")
    before = live(ours)
    official_gc(theirs, cutoff)
    collect(ours, cutoff)
    # A kept child of a dropped snapshot needs its parent's log from now on: ours keeps it.
    extra = files(ours) - files(theirs)
    assert not files(theirs) - files(ours)
    assert all(path.startswith("transactions/") for path in extra)
    assert live(ours) == before
    collect(ours)
    assert live(ours) == before


@pytest.mark.parametrize("spec_version", [1, 2])
def test_chunks_that_were_moved_within_an_array(tmp_path: Path, spec_version: int) -> None:
    """`reindex_array` leaves two references to one chunk file, and that is sound."""
    repo = create(tmp_path / "repo", spec_version, inline_chunk_threshold_bytes=0)
    with commit(repo, "written") as root:
        root.create_array("a", shape=(8,), chunks=(1,), dtype="i8", compressors=None)[:4] = range(4)
    session = repo.writable_session("main")
    session.reindex_array("/a", lambda index: [index[0] + 1])
    session.commit("moved")
    abandon_session(repo)
    check_like_official(tmp_path / "repo", tmp_path)


WHOLE = 1_700_000_000_000_000


@pytest.mark.parametrize("spec_version", [1, 2])
@pytest.mark.parametrize(
    ("created_at", "cutoff", "goes"),
    [
        (WHOLE, WHOLE + 1, False),
        (WHOLE, WHOLE + 999_999, False),
        (WHOLE, WHOLE + 1_000_000, True),
        (WHOLE + 1, WHOLE + 1, False),
        (WHOLE + 1, WHOLE + 2, True),
    ],
)
def test_times_of_whole_seconds(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    spec_version: int,
    created_at: int,
    cutoff: int,
    goes: bool,
) -> None:
    """The storage may have cut the rest off: the whole second must lie before the cutoff."""
    source = built(tmp_path_factory, messy_repository, spec_version)
    ours, theirs = copied(source, tmp_path / "ours"), copied(source, tmp_path / "theirs")
    for where in (ours, theirs):
        set_times(where, created_at)
    official_gc(theirs, cutoff)
    moment = f"{datetime.fromtimestamp(cutoff / 1e6, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    assert run(["gc", "-r", str(ours), "--older-than", moment, "--yes"], {}) == 0
    assert files(ours) == files(theirs)
    assert (files(ours) < files(source)) is goes
    # What stays in the repo file is decided by the same times.
    kept = [all_snapshot_ids(open_official(where)) for where in (ours, theirs)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize(("rest", "goes"), [(999_999, False), (1_000_000, True)])
def test_backups_of_whole_seconds(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    rest: int,
    goes: bool,
) -> None:
    ours = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "ours")
    set_times(ours, WHOLE)
    moment = f"{datetime.fromtimestamp((WHOLE + rest) / 1e6, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    times = ("--older-than", "7d", "--overwritten-older-than", moment, "--truncate-ops-log")
    assert run(["gc", "-r", str(ours), *times, "--dry-run", "--json"], {}) == 0
    assert (json.loads(capsys.readouterr().out)["backups_deleted"] > 0) is goes
