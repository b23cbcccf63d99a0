"""Work for executors: values that are pickled, one on each task, and manifests by size."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from icectl.repository.repository import Repository
from icectl.spark.gc_jobs import spread


def spread_tasks(spark: Any, values: Iterable[Any]) -> Any:
    """A DataFrame for `Source`, whose function takes the values back with `read_tasks`."""
    rows = [pickle.dumps(value) for value in values]
    return spread(spark, pa.table({"task": pa.array(rows, pa.binary())}))


def read_tasks(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        for data in batch.column("task").to_pylist():
            yield pickle.loads(data)  # noqa: S301 -- written by our own driver


def files_only(repository: Repository) -> Repository:
    """The repository without its refs and history: small enough to send, and it reads files."""
    return replace(
        repository, info=None, branch_tips={}, tag_targets={}, deleted_tag_names=(), _read_infos={}
    )
