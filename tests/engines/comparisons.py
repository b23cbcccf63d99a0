"""The result of an operation on an engine compared with that of the local engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from icectl.ops.gc.plan import GcPlan
from icectl.ops.gc.report import summarize
from icectl.ops.gc.run import GcOptions, PlannedRun, plan_run
from icectl.ops.stats.run import StatsOptions, measure
from icectl.ops.validate.report import ValidateResult
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.pipeline.engine import Engine
from icectl.pipeline.objects import ObjectKind
from icectl.repository.open import open_repository
from icectl.storage.contract import Storage
from tests.gc.repositories import now


def planned(plan: GcPlan) -> dict[str, tuple[int, int]]:
    """The objects that a plan deletes, with size and time."""
    return {
        part.kind.path(name): (size, created_at)
        for garbage in plan.garbage.values()
        for part in garbage.parts()
        for name, size, created_at in zip(
            part.ids.to_names(), part.size.tolist(), part.created_at.tolist(), strict=True
        )
    }


def check_equal_plans(storage: Storage, cutoff: int, engine: Engine) -> PlannedRun:
    local = plan_run(storage, GcOptions(cutoff))
    other = plan_run(storage, GcOptions(cutoff, choose_engine=lambda _: engine))
    assert planned(other.plan) == planned(local.plan)
    assert (other.plan.kept, other.plan.foreign) == (local.plan.kept, local.plan.foreign)
    every = frozenset(ObjectKind)
    found, expected = (summarize(one, every, now(), None) for one in (other, local))
    assert (found.engine, expected.engine) == (engine.name, "local")
    for name in ("by_age", "garbage", "kept", "bytes_deleted", "chunks_deleted"):
        assert getattr(found, name) == getattr(expected, name), name
    assert [item.size for item in found.largest] == [item.size for item in expected.largest]
    return local


def check_equal_stats(storage: Storage, engine: Engine, options: StatsOptions) -> None:
    repository = open_repository(storage)
    found = measure(repository, replace(options, choose_engine=lambda _: engine))
    assert found.engine == engine.name
    assert replace(found, engine="local") == measure(repository, options)


def check_equal_findings(storage: Storage, engine: Engine, options: ValidateOptions) -> Any:
    found, report = validate(storage, replace(options, choose_engine=lambda _: engine))
    expected, expected_report = validate(storage, options)
    assert replace(found, engine="local") == expected
    assert sorted(report.missing) == sorted(expected_report.missing)
    assert sorted(report.lost_files) == sorted(expected_report.lost_files)
    assert isinstance(found, ValidateResult)
    return found
