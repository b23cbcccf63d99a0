"""Jobs, and how one is measured.

    @job("log of 2,000 commits", target=0.6)
    def log_of_commits(scale: Scale) -> Comparison:
        repository = dataset("many_commits", scale.of(2_000))
        return Comparison(official=python("…", repository), ours=icectl("log", "-r", repository))

`Command.before` runs, unmeasured, before each run: a real gc gets its fresh copy there. A
command with a `store` runs on object storage, and its requests are counted. This process must
stay small, since a child's peak memory begins at its parent's: neither numpy nor icechunk is
imported here.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.benchmarks.object_store import ObjectStore

PROJECT = Path(__file__).parents[2]
BENCH = PROJECT / ".bench"
LONG_ROUND_SECONDS = 90
GROWTH_TARGET = 12
"""At most this ratio of the time at full size to that at a tenth: linear, with some noise."""


@dataclass(frozen=True)
class Scale:
    name: str
    divisor: int

    def of(self, full: int) -> int:
        return max(1, full // self.divisor)


SCALES = {scale.name: scale for scale in (Scale("full", 1), Scale("small", 20), Scale("tiny", 200))}


@dataclass(frozen=True)
class Command:
    arguments: tuple[str, ...]
    before: Callable[[], None] | None = None
    measures_inside: bool = False
    """The last line it prints is `{"seconds": …}`, to be taken in place of the wall time.

    With `"megabytes"` beside it, that is its memory: of several processes together.
    """
    store: ObjectStore | None = None


@dataclass(frozen=True)
class Fixed:
    """A side that is not run: a size that memory is compared with."""

    megabytes: float


@dataclass(frozen=True)
class Comparison:
    official: Command | Fixed
    ours: Command
    baseline: str = "official"
    """What the left side is, where it is not the official package."""
    note: str = ""


@dataclass(frozen=True)
class Job:
    name: str
    build: Callable[[Scale], Comparison]
    target: float | None
    """At most this ratio of wall times."""
    memory_target: float | None
    """At most this ratio of peak memories."""
    request_target: float | None = None
    """At most this ratio of requests to object storage."""
    most_requests: int | None = None
    """At most this many requests."""


@dataclass(frozen=True)
class Measurement:
    seconds: float | None
    megabytes: float
    requests: int | None = None
    rounds: int | None = None
    """The longest chain of requests that each waited for the one before."""


JOBS: list[Job] = []

CPU = """
import json, resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"seconds": usage.ru_utime + usage.ru_stime, "megabytes": usage.ru_maxrss / 1024}))
"""


class CommandFailedError(Exception):
    pass


Build = Callable[[Scale], Comparison]


def job(
    name: str,
    *,
    target: float | None = None,
    memory_target: float | None = None,
    request_target: float | None = None,
    most_requests: int | None = None,
) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        targets = (target, memory_target, request_target, most_requests)
        JOBS.append(Job(name, build, *targets))
        return build

    return register


def growth_job(name: str, full: int) -> Callable[[Callable[[int], Command]], None]:
    """A job that compares a command on data of the full size with itself on a tenth of it.

    The decorated function returns the command for a size.
    """

    def register(command: Callable[[int], Command]) -> None:
        @job(f"{name}, growth", target=GROWTH_TARGET)
        def growth(scale: Scale) -> Comparison:
            sizes = (scale.of(full // 10), scale.of(full))
            return Comparison(*map(command, sizes), baseline="a tenth of it")

    return register


def python(code: str, *arguments: object, measures_inside: bool = False) -> Command:
    """The code in a fresh interpreter; `sys.argv[1:]` are the arguments."""
    return Command(
        (sys.executable, "-c", code, *map(str, arguments)), measures_inside=measures_inside
    )


def icectl(*arguments: object, before: Callable[[], None] | None = None) -> Command:
    program = Path(sys.executable).with_name("icectl")
    return Command((str(program), *map(str, arguments)), before=before)


def cpu(command: Command) -> Command:
    """The same below a small process: CPU seconds, and memory that no large caller adds to."""
    wrapped = (sys.executable, "-c", CPU, *command.arguments)
    return replace(command, arguments=wrapped, measures_inside=True)


def dataset(builder: str, *arguments: int, **options: object) -> Path:
    """The repository that `tests.official.BUILDER(path, *arguments, **options)` writes."""
    words = [builder, *map(str, arguments), *(f"{k}={v}" for k, v in sorted(options.items()))]
    path = BENCH / "data" / "-".join(words)
    if not path.exists():
        print(f"building {path.name}", file=sys.stderr, flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as unfinished:
            build(builder, Path(unfinished, "repo"), arguments, options)
            Path(unfinished, "repo").rename(path)
    return path


def build(
    builder: str, path: Path, arguments: Sequence[int], options: Mapping[str, object]
) -> None:
    """Call the builder in a fresh process, so that this one stays small."""
    code = (
        "import json, sys, tests.official as official\n"
        "builder, path, arguments, options = sys.argv[1:]\n"
        "getattr(official, builder)(path, *json.loads(arguments), **json.loads(options))"
    )
    run(python(code, builder, path, json.dumps(arguments), json.dumps(options)))


def run(command: Command) -> Measurement:
    """One fresh process, its output into a pipe as a script would have it."""
    if command.before:
        command.before()
    environment = os.environ | {"ICECHUNK_LOG": "error"}
    # Installed packages have bytecode, so icectl shall have it from its second run on.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if command.store:
        environment |= command.store.environment
        command.store.take_traffic()
    with tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command.arguments,
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            cwd=PROJECT,
            env=environment,
        )
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        if process.returncode:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines() or ["no message"]
            raise CommandFailedError(f"exit {process.returncode}: {lines[-1][:200]}")
    megabytes = usage.ru_maxrss / 1024
    if command.measures_inside:
        measured = json.loads(output.splitlines()[-1])
        seconds = measured["seconds"]
        megabytes = measured.get("megabytes", megabytes)
    if command.store:
        traffic = command.store.take_traffic()
        return Measurement(seconds, megabytes, traffic["requests"], traffic["rounds"])
    return Measurement(seconds, megabytes)


def compare(comparison: Comparison, rounds: int) -> tuple[Measurement, Measurement]:
    """Medians of both sides, which take turns; the first round warms the file cache only.

    A round of minutes is the only one: what disturbs a short one is lost in it.
    """
    sides = (comparison.official, comparison.ours)
    seen: tuple[list[Measurement], list[Measurement]] = ([], [])
    begin = time.perf_counter()
    for number in range(rounds + 1):
        if number == 1:
            if time.perf_counter() - begin > LONG_ROUND_SECONDS:
                break
            for results in seen:
                results.clear()
        for side, results in zip(sides, seen, strict=True):
            results.append(
                Measurement(None, side.megabytes) if isinstance(side, Fixed) else run(side)
            )
    return median(seen[0]), median(seen[1])


def median(results: list[Measurement]) -> Measurement:
    def of(values: list[float | None]) -> float | None:
        present = [value for value in values if value is not None]
        return statistics.median(present) if present else None

    requests = of([result.requests for result in results])
    rounds = of([result.rounds for result in results])
    return Measurement(
        of([result.seconds for result in results]),
        statistics.median(result.megabytes for result in results),
        None if requests is None else round(requests),
        None if rounds is None else round(rounds),
    )
