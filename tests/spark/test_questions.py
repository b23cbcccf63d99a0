"""The queries of icectl-tables(7), on a repository whose answers are known."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icectl.cli.main import run
from icectl.format.repo import decode_repo, encode_repo
from icectl.storage.times import microseconds
from tests.docs.man_pages import MANUAL
from tests.spark import MARKS
from tests.spark.questions import (
    CHUNKS_SHARED_BY_TWO_BRANCHES,
    COMMITS_THAT_TOUCHED_A_REGION,
    GROWTH_BY_MONTH_AND_ARRAY,
)

pytestmark = MARKS
MONTHS = {"arrays": 1, "first year": 1, "second year": 2, "correct": 3, "try": 3, "rename": 4}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`/temperature` and `/wind` of 8 chunks of 800 bytes each; times are set afterwards."""
    from tests.official.histories import commit, create

    path = tmp_path_factory.mktemp("questions") / "repo"
    repo = create(path, 2, inline_chunk_threshold_bytes=0)
    plain: dict[str, Any] = {"chunks": (100,), "dtype": "f8", "compressors": None}
    with commit(repo, "arrays") as root:
        for name in ("temperature", "wind"):
            root.create_array(name, shape=(800,), **plain)
    with commit(repo, "first year") as root:
        root["temperature"][:400] = np.arange(400) + 1
        root["wind"][:400] = 1
    with commit(repo, "second year") as root:
        root["temperature"][400:] = 2
    with commit(repo, "correct") as root:
        root["temperature"][250:350] = 3
    repo.create_branch("experiment", repo.lookup_branch("main"))
    with commit(repo, "try", branch="experiment") as root:
        root["temperature"][700:] = 4
    repo.create_branch("renamed", repo.lookup_branch("main"))
    session = repo.rearrange_session("renamed")
    session.move("/wind", "/gale")
    session.commit("rename")
    file = path / "repo"
    info = decode_repo(file.read_bytes())
    snapshots = tuple(
        replace(one, flushed_at=microseconds(datetime(2024, MONTHS[one.message], 5, tzinfo=UTC)))
        if one.message in MONTHS
        else one
        for one in info.snapshots
    )
    file.write_bytes(encode_repo(replace(info, snapshots=snapshots)))
    return path


@pytest.fixture
def ask(spark: Any, repository: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def call(query: str, *arguments: str) -> list[dict[str, Any]]:
        import json

        capsys.readouterr()
        code = run(["sql", query, "-r", str(repository), "--json", *arguments], os.environ)
        captured = capsys.readouterr()
        assert code == 0, captured.err
        rows: list[dict[str, Any]] = json.loads(captured.out)["rows"]
        return rows

    return call


def test_which_commits_touched_a_region(ask: Callable[..., Any]) -> None:
    rows = ask(COMMITS_THAT_TOUCHED_A_REGION)
    assert [(row["message"], row["chunks"]) for row in rows] == [("first year", 2), ("correct", 2)]
    assert rows[0]["flushed_at"] == "2024-01-05T00:00:00.000000Z"


def test_which_chunks_two_branches_share(ask: Callable[..., Any]) -> None:
    rows = ask(CHUNKS_SHARED_BY_TWO_BRANCHES, "--ref", "main", "--ref", "experiment")
    assert rows == [
        {"path": "/temperature", "shared_chunks": 7, "shared_bytes": 5600},
        {"path": "/wind", "shared_chunks": 4, "shared_bytes": 3200},
    ]


def test_how_the_repository_grew(ask: Callable[..., Any]) -> None:
    """That /wind is /gale since April made nothing grow."""
    rows = ask(GROWTH_BY_MONTH_AND_ARRAY, "--all-snapshots")
    assert [tuple(row.values()) for row in rows] == [
        ("2024-01", "/temperature", 4, 3200),
        ("2024-01", "/wind", 4, 3200),
        ("2024-02", "/temperature", 4, 3200),
        ("2024-03", "/temperature", 3, 2400),
    ]


def test_the_manual_has_them_literally() -> None:
    manual = (MANUAL / "icectl-tables.7.md").read_text(encoding="utf-8")
    for question in (
        COMMITS_THAT_TOUCHED_A_REGION,
        CHUNKS_SHARED_BY_TWO_BRANCHES,
        GROWTH_BY_MONTH_AND_ARRAY,
    ):
        assert f"```sql\n{question.strip()}\n```" in manual
