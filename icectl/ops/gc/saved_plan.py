"""Plans in files: JSON Lines, or Parquet if the name ends in `.parquet`.

A file names each object with its kind, size, time and the reason for deleting it, and the state
that the plan was made for. A saved plan can only narrow a run: an object is deleted if the file
names it and a new plan of the current state still finds it to be garbage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from icectl.errors import IcectlError, RefusedError, Remedy, UsageError
from icectl.model.ids import SnapshotId
from icectl.model.repo import RepoInfo
from icectl.ops.files import check_outside, open_private
from icectl.ops.gc.plan import GcPlan, protect_snapshots, protect_usable, with_garbage
from icectl.pipeline.id_columns import BLOCK, IdSet, decode_names, union
from icectl.pipeline.objects import Garbage, ObjectKind
from icectl.pipeline.progress import Progress
from icectl.repository.reparent import drop_snapshots

VERSION = 1
PARQUET = ".parquet"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNREACHABLE = "no branch or tag leads to it"
NOT_IN_REPO = "repo does not list it"
_REASONS = {
    ObjectKind.TRANSACTION_LOG: "no kept snapshot needs it",
    ObjectKind.MANIFEST: "no kept snapshot refers to it",
    ObjectKind.CHUNK: "no kept manifest refers to it",
}


@dataclass(frozen=True, slots=True, eq=False)
class SavedPlan:
    location: str
    cutoff: int
    ids: dict[ObjectKind, IdSet]
    released: frozenset[SnapshotId]
    """Snapshots that were to leave `repo` while their files were to stay: `--only`."""

    @property
    def num_objects(self) -> int:
        return sum(map(len, self.ids.values()))

    def restrict(self, plan: GcPlan, progress: Progress) -> GcPlan:
        """The part of `plan` that the saved plan names as well.

        A snapshot that it does not name stays usable: everything that it needs is kept.
        """
        location = plan.repository.storage.location
        if not _is_same_place(location, self.location):
            raise RefusedError(
                f"the plan was made for {self.location}, and this is {location}",
                hint=Remedy("make-plan"),
            )
        named = {SnapshotId(id_) for id_ in self.ids[ObjectKind.SNAPSHOT].to_bytes()}
        info = plan.repository.info
        if info is None:
            plan = protect_usable(plan, named, progress)
        else:
            named |= self.released
            stays = plan.dropped_snapshots - named
            plan = replace(plan, dropped_snapshots=plan.dropped_snapshots & named)
            edited = drop_snapshots(info, plan.dropped_snapshots)
            plan = protect_snapshots(plan, edited, stays, progress)
            plan = replace(plan, kept_snapshots=plan.kept_snapshots | stays)
        return with_garbage(
            plan, {kind: found.within(self.ids[kind]) for kind, found in plan.garbage.items()}
        )


def _is_same_place(one: str, other: str) -> bool:
    """Whether both are the same location; a local directory has many names."""
    if one == other or "://" in one or "://" in other:
        return one == other
    return Path(one).resolve() == Path(other).resolve()


def check_format(path: Path) -> None:
    """Raise before the work if a library for the format of the file is missing."""
    if path.suffix == PARQUET:
        _import_parquet()


def write_plan(plan: GcPlan, only: Set[ObjectKind], path: Path) -> None:
    """Write the part of the plan that a run of these kinds would execute."""
    plan = replace(
        plan, garbage={kind: found for kind, found in plan.garbage.items() if kind in only}
    )
    check_outside(path, plan.repository.storage.location)
    try:
        if path.suffix == PARQUET:
            _write_parquet(plan, path)
        else:
            with open_private(path, "w", encoding="ascii") as file:
                file.write(json.dumps(_header(plan)) + "\n")
                for rows in _rows(plan):
                    for row in rows:
                        row["created_at"] = _rfc_3339(row["created_at"])
                        file.write(json.dumps(row) + "\n")
    except OSError as error:
        raise IcectlError(f"the plan file {path} cannot be written: {_reason(error)}") from error


def read_plan(path: Path) -> SavedPlan:
    try:
        parquet = path.suffix == PARQUET
        return _read_parquet(path) if parquet else _read_lines(path)
    except OSError as error:
        raise UsageError(f"the plan file {path} cannot be read: {_reason(error)}") from error
    except (ValueError, NotImplementedError) as error:  # the latter of pyarrow
        raise UsageError(f"{path} is not a plan file of gc: {error}") from None


def _reason(error: OSError) -> str:
    return error.strerror or str(error)  # those of pyarrow have no number


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _rfc_3339(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"


def _newest_update_at(info: RepoInfo) -> str | None:
    try:
        return _rfc_3339(_moment(info.latest_updates[0].updated_at))
    except (IndexError, OverflowError):
        return None  # there is none, or the number is not a date


def _header(plan: GcPlan) -> dict[str, Any]:
    info = plan.repository.info
    return {
        "icectl_gc_plan": VERSION,
        "location": plan.repository.storage.location,
        "cutoff_at": _rfc_3339(_moment(plan.cutoff)),
        "newest_update_at": _newest_update_at(info) if info else None,
        "branches": {name: str(tip) for name, tip in plan.repository.branches().items()},
        "tags": {name: str(tip) for name, tip in plan.repository.tags().items()},
        "released_snapshots": []
        if ObjectKind.SNAPSHOT in plan.garbage
        else sorted(map(str, plan.dropped_snapshots)),
        "num_objects": plan.num_objects,
        "num_bytes": plan.num_bytes,
    }


def _rows(plan: GcPlan) -> Iterator[list[dict[str, Any]]]:
    """All objects, in parts that fit in memory."""
    dropped = {str(id_) for id_ in plan.dropped_snapshots}

    def reason(kind: ObjectKind, name: str) -> str:
        unreachable = name in dropped or not plan.repository.lists_snapshots
        return _REASONS.get(kind) or (UNREACHABLE if unreachable else NOT_IN_REPO)

    for block in _blocks(plan):
        columns = (block.ids.to_names(), block.size.tolist(), block.created_at.tolist())
        yield [
            {
                "kind": block.kind.value,
                "id": name,
                "size": size,
                "created_at": _moment(created_at),
                "reason": reason(block.kind, name),
            }
            for name, size, created_at in zip(*columns, strict=True)
        ]


def _blocks(plan: GcPlan) -> Iterator[Garbage]:
    for garbage in plan.garbage.values():
        for part in garbage.parts():
            for start in range(0, len(part), BLOCK):
                yield part[np.arange(start, min(start + BLOCK, len(part)))]


def _read_lines(path: Path) -> SavedPlan:
    with path.open("rb") as file:
        header = _parse_line(file.readline(), 1)
        rows = (_parse_line(line, number) for number, line in enumerate(file, 2))
        return _saved(header, ((row.get("kind"), row.get("id")) for row in rows))


def _parse_line(line: bytes, number: int) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ValueError(f"line {number} is not a JSON object")
    return document


def _saved(header: dict[str, Any], rows: Iterable[tuple[Any, Any]]) -> SavedPlan:
    """The plan of these kinds and ids; the file may have been edited."""
    try:
        cutoff = (datetime.fromisoformat(header["cutoff_at"]) - _EPOCH) // timedelta(microseconds=1)
        released = frozenset(map(SnapshotId.parse, header["released_snapshots"]))
        location = header["location"]
        is_known = header["icectl_gc_plan"] == VERSION and isinstance(location, str)
    except (KeyError, TypeError, ValueError):
        is_known = False
    if not is_known:
        raise ValueError("its first line is that of another version, or of another program")
    names: dict[str, list[str]] = {kind.value: [] for kind in ObjectKind}
    for kind, name in rows:
        if not isinstance(kind, str) or kind not in names:
            raise ValueError(f"it names an object of the unknown kind {kind!r}")
        if not isinstance(name, str):
            raise ValueError(f"{name!r} is not an id")
        names[kind].append(name)
    count, expected = sum(map(len, names.values())), header.get("num_objects")
    if count != expected:
        raise ValueError(f"it has {count} objects, but its first line says {expected}")
    ids: dict[ObjectKind, IdSet] = {}
    for kind, found in names.items():
        columns, good = decode_names(found)
        if not good.all():
            raise ValueError(f"{found[int(np.argmin(good))]!r} is not an id")
        ids[ObjectKind(kind)] = union([columns])
    return SavedPlan(location, cutoff, ids, released)


def _import_parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            "a plan file that ends in .parquet needs pyarrow, which is not installed",
            hint="pip install 'icectl[spark]', or let the file end in .jsonl",
        ) from None
    return pyarrow


def _write_parquet(plan: GcPlan, path: Path) -> None:
    pyarrow = _import_parquet()
    schema = pyarrow.schema(
        [
            ("kind", pyarrow.string()),
            ("id", pyarrow.string()),
            ("size", pyarrow.int64()),
            ("created_at", pyarrow.timestamp("us", "UTC")),
            ("reason", pyarrow.string()),
        ],
        metadata={"icectl_gc_plan": json.dumps(_header(plan))},
    )
    with open_private(path, "wb") as file, pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for rows in _rows(plan):
            writer.write_batch(pyarrow.RecordBatch.from_pylist(rows, schema))


def _read_parquet(path: Path) -> SavedPlan:
    pyarrow = _import_parquet()
    # As one file: given a path, pyarrow would read a data set, and all files of a directory.
    table = pyarrow.parquet.ParquetFile(path).read()
    metadata = table.schema.metadata or {}
    if b"icectl_gc_plan" not in metadata or not {"kind", "id"} <= {*table.column_names}:
        raise ValueError("it is a table of something else")
    header = _parse_line(metadata[b"icectl_gc_plan"], 1)
    columns = (table.column("kind").to_pylist(), table.column("id").to_pylist())
    return _saved(header, zip(*columns, strict=True))
