"""No error in what official releases wrote: fixtures, the zoo, random histories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from icectl.checks.repo import check_step
from icectl.checks.rules import Level
from icectl.cli.main import run
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.repository.ops_log import backup_object, read_repo
from icectl.storage.local import LocalStorage
from tests.gc.repositories import messy_repository
from tests.official import build_zoo, built, ic, open_official, random_history
from tests.official.histories import commit, create
from tests.repetition import repeated

FIXTURES = (
    "split-repo-v2",
    "test-repo-0.1.0",
    "test-repo-alpha15",
    "test-repo-alpha4",
    "test-repo-alpha8",
    "test-repo-v1",
    "test-repo-v2",
    "test-repo-v2-migrated",
)


def findings(where: Path, **options: Any) -> list[tuple[str, str, str]]:
    result, _ = validate(LocalStorage(where), ValidateOptions(level=Level.DATA, **options))
    assert result.checked.snapshots
    return [
        (one.code, one.object, one.detail) for one in result.findings if one.severity == "error"
    ]


@pytest.mark.parametrize("name", FIXTURES)
def test_fixtures(shared_fixtures: Path, name: str) -> None:
    assert findings(shared_fixtures / name, decode=True) == []


@pytest.mark.parametrize("spec_version", [1, 2])
def test_zoo(tmp_path_factory: pytest.TempPathFactory, spec_version: int) -> None:
    assert findings(built(tmp_path_factory, build_zoo, spec_version), decode=True) == []


@pytest.mark.parametrize("spec_version", [1, 2])
def test_repository_with_garbage(
    tmp_path_factory: pytest.TempPathFactory, spec_version: int
) -> None:
    assert findings(built(tmp_path_factory, messy_repository, spec_version)) == []


@pytest.mark.parametrize("seed", repeated(range(2), range(2, 4)))
@pytest.mark.parametrize("spec_version", [1, 2])
def test_random_histories(tmp_path: Path, spec_version: int, seed: int) -> None:
    random_history(tmp_path / "repo", 100 + seed, 40, spec_version)
    assert findings(tmp_path / "repo") == []


def test_expired_before_and_after_a_migration(tmp_path: Path) -> None:
    """The first expiration forgot the logs of what it released, and the second cannot know them."""
    where = tmp_path / "repo"
    repo = create(where, 1)
    for number in range(4):
        with commit(repo, f"{number}") as root:
            root.create_group(f"g{number}")
    repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
    for number in range(2):
        with commit(repo, f"later {number}") as root:
            root.attrs["number"] = number
    ic.upgrade_icechunk_repository(open_official(where), dry_run=False)
    repo = open_official(where)
    assert repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
    assert findings(where) == []


def test_every_operation_explains_its_step(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Not only the newest one: all states of a repository with every kind of operation."""
    storage = LocalStorage(built(tmp_path_factory, build_zoo, 2))
    state, kinds = read_repo(storage), set()
    while len(state.latest_updates) > 1:
        name = state.latest_updates[1].backup_path
        assert name is not None
        before = read_repo(storage, backup_object(name))
        assert [problem.detail for problem in check_step(before, state)] == []
        kinds.add(state.latest_updates[0].update_type.kind)
        state = before
    assert len(kinds) >= 12


@pytest.mark.parametrize("value", [5, 5.5, 300_000, [1, -2, 3], {"a": [1, 2, {"b": None}]}])
def test_metadata_that_an_official_client_encodes_anew(tmp_path: Path, value: Any) -> None:
    where = tmp_path / "repo"
    repo = create(where)
    run(["metadata", "set", "-r", str(where), "key", json.dumps(value)], {})
    repo.create_branch("other", repo.lookup_branch("main"))
    assert findings(where) == []
