"""Runs the jobs, prints one table, writes the numbers as JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.benchmarks import jobs
from tests.benchmarks.harness import (
    BENCH,
    JOBS,
    SCALES,
    CommandFailedError,
    Job,
    Measurement,
    Scale,
    compare,
)

SIDE = ("MB", "requests", "rounds")
COLUMNS = (
    "job",
    "beside",
    "theirs s",
    *SIDE,
    "ours s",
    *SIDE,
    "time",
    "target",
    "memory",
    "target",
)


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def measure(job: Job, scale: Scale, rounds: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "job": job.name,
        "target": job.target,
        "memory_target": job.memory_target,
        "request_target": job.request_target,
        "most_requests": job.most_requests,
    }
    try:
        comparison = job.build(scale)
        result |= {"baseline": comparison.baseline, "note": comparison.note}
        theirs, ours = compare(comparison, rounds)
    except CommandFailedError as error:
        return result | {"error": str(error), "ok": False}
    time_ratio = ratio(ours.seconds, theirs.seconds)
    memory_ratio = ratio(ours.megabytes, theirs.megabytes)
    return result | {
        "theirs": asdict(theirs),
        "ours": asdict(ours),
        "time_ratio": time_ratio,
        "memory_ratio": memory_ratio,
        "ok": within(time_ratio, job.target)
        and within(memory_ratio, job.memory_target)
        and within(ratio(ours.requests, theirs.requests), job.request_target)
        and within(ours.requests, job.most_requests),
    }


def within(value: float | None, target: float | None) -> bool:
    return target is None or (value is not None and value <= target)


def number(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def cells(result: dict[str, Any]) -> list[str]:
    if "error" in result:
        return [result["job"], result.get("baseline", ""), f"failed: {result['error']}"]
    sides = [
        [number(side.seconds)]
        + [number(value, 0) for value in (side.megabytes, side.requests, side.rounds)]
        for side in (Measurement(**result["theirs"]), Measurement(**result["ours"]))
    ]
    return [
        result["job"] + ("" if result["ok"] else " !"),
        result["baseline"],
        *sides[0],
        *sides[1],
        number(result["time_ratio"]),
        "" if result["target"] is None else f"{result['target']:g}",
        number(result["memory_ratio"], 2),
        "" if result["memory_target"] is None else f"{result['memory_target']:g}",
    ]


def print_table(results: Sequence[dict[str, Any]]) -> None:
    rows = [list(COLUMNS), *map(cells, results)]
    whole = [row for row in rows if len(row) == len(COLUMNS)]
    widths = [max(len(row[column]) for row in whole) for column in range(len(COLUMNS))]
    widths[0] = max(len(row[0]) for row in rows)
    for row in rows:
        padded = [
            text.ljust(width) if column < 2 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=False))
        ]
        print("  ".join(padded).rstrip())
    for result in results:
        if result.get("note"):
            print(f"{result['job']}: {result['note']}")
    print("Ratios are ours to theirs; ! marks a target that was missed.")
    print("Rounds: the longest chain of requests that each waited for the one before.")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--scale", choices=sorted(SCALES), default="full")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=BENCH / "results.json", metavar="FILE")
    options = parser.parse_args()
    for module in pkgutil.iter_modules(jobs.__path__, jobs.__name__ + "."):
        importlib.import_module(module.name)
    chosen = [j for j in JOBS if not options.only or any(n in j.name for n in options.only)]
    if not chosen:
        parser.error("no job has that name; there are: " + ", ".join(j.name for j in JOBS))
    results = []
    for current in chosen:
        print(f"running {current.name}", file=sys.stderr, flush=True)
        results.append(measure(current, SCALES[options.scale], options.rounds))
        # After each job, so that an interrupted run loses only one.
        document = {
            "scale": options.scale,
            "rounds": options.rounds,
            "python": platform.python_version(),
            "results": results,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    print_table(results)
    return 0 if all(result["ok"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
