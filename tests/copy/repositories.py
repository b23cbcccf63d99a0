"""What tests of `copy` compare: the official package's reads of the source and the target."""

from __future__ import annotations

from typing import Any

from icectl.cli.main import run
from icectl.ops.copy.run import CopyOptions, CopyResult, copy_repository
from icectl.storage.contract import Storage
from icectl.storage.local import LocalStorage
from tests.official import Where, ic, official_report, open_official, read_everything


def copy(source: Any, target: Any, **options: Any) -> CopyResult:
    storages = [one if isinstance(one, Storage) else LocalStorage(one) for one in (source, target)]
    return copy_repository(storages[0], storages[1], CopyOptions(**options))


def repository(where: Where | ic.Repository) -> ic.Repository:
    return where if isinstance(where, ic.Repository) else open_official(where)


def assert_equal(source: Where, target: Where) -> None:
    """The official package reads the same from both, and finds the same history and log."""
    one, other = repository(source), repository(target)
    assert read_everything(other) == read_everything(one)
    ours, theirs = official_report(other), official_report(one)
    for report in (ours, theirs):
        report.get("inspect_repo_info", {}).pop("latest_updates", None)
        for name in ("ops_log", "status", "inspect_repo_info"):
            report.pop(name, None)
    assert ours == theirs


def assert_part(source: Where, target: Where) -> None:
    """All that the target has is as in the source."""
    whole, part = read_everything(repository(source)), read_everything(repository(target))
    for name in ("branches", "tags", "snapshots"):
        assert part[name].items() <= whole[name].items()


def assert_sound(where: Any) -> None:
    assert run(["validate", "-r", str(where), "--level", "data", "--fail-on", "warning"], {}) == 0
