"""`icectl demo`: a repository with a history, and a tour through the commands."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import command
from icectl.errors import IcectlError
from icectl.render.blocks import Line

EXAMPLES = {
    "demo": (
        ("icectl demo demo-repo", "see everything at work in half a minute"),
        ("icectl demo demo-repo --no-tour", "only make the repository, to try things on"),
    )
}
POLICY = "--keep-last 3 --keep-weekly 4"
TOUR = (
    ("Every commit, also those that no branch leads to any more", "log --graph --all --oneline"),
    ("What is in the newest version", "ls --tree"),
    ("What the last six commits changed", "diff main~6 main"),
    ("Every operation on the repository, not only commits", "ops-log -n 12"),
    ("Is all of it sound, down to each chunk file?", "validate --level chunks"),
    ("Where the bytes go", "stats"),
    ("Which history a retention policy would release, and why", f"expire {POLICY} --dry-run"),
    ("Release it", f"expire {POLICY} --yes"),
    ("What nothing needs any more", "gc --older-than 7d --dry-run"),
)
COLLECT = ("Delete it", "gc --older-than 7d --yes")
COLLECT_WITH_SPARK = (
    "The same on the copy, as a Spark job: the same plan, the same result",
    "gc --older-than 7d --yes --engine spark",
)
AFTERWARDS = (
    ("Sound as before, and smaller; garbage of the last week is left", "validate --level chunks"),
    ("What happened is in the log of operations", "ops-log -n 3"),
)


@dataclass(frozen=True, slots=True)
class TourStep:
    command: str
    exit_code: int
    output: str | None
    """What it printed to standard output, under --json; else it went there itself."""


@dataclass(frozen=True, slots=True)
class Demo:
    location: str
    writer: str
    steps: tuple[TourStep, ...]
    left_out: str | None
    """Why the Spark part was left out; None when it ran."""


@command(repository=False)
def demo(
    context: CommandContext,
    directory: Annotated[
        str,
        typer.Argument(metavar="DIRECTORY", help="A new or an empty directory for the repository."),
    ],
    writer: Annotated[
        Literal["icechunk", "icectl"] | None,
        typer.Option(
            "--writer",
            help="Who writes the repository: the official package (the default where it is "
            "installed) or icectl itself.",
        ),
    ] = None,
    no_tour: Annotated[
        bool, typer.Option("--no-tour", help="Make the repository, and run no command on it.")
    ] = False,
) -> None:
    """Create a demo repository and tour the commands.

    The repository holds six weeks of sea surface temperature: daily commits, a release, a
    branch, a commit that was taken back, an experiment that was given up and a writer that
    died, so that there is something to look at, to expire and to collect. Then each command of
    the tour is printed with its real output. Spark takes part where Java and pyspark are there.

    Only new files in DIRECTORY are written, and nothing outside of it; delete it when you are
    done.
    """
    from icectl.ops.demo.write import (
        check_directory,
        choose_author,
        parse_directory,
        write_demo_repository,
    )

    root = parse_directory(directory)
    check_directory(root)
    author = choose_author(writer)
    repository = root / "weather"
    write_demo_repository(repository, context.now(), author)
    context.note(f"{repository} was written by {author}")
    tour = Tour(context, repository)
    if not no_tour:
        tour.run()
    if context.wants_text:
        context.note(f"the repository stays in {repository}; delete {root} when you are done")
    else:
        steps = tuple(tour.steps)
        context.emit(Demo(str(repository), author, steps, tour.left_out), lambda _demo: ())


class Tour:
    """Commands on the demo repository, each in a process of its own as a user would start it."""

    def __init__(self, context: CommandContext, repository: Path) -> None:
        self.context = context
        self.repository = repository
        self.steps: list[TourStep] = []
        self.left_out: str | None = None

    def run(self) -> None:
        from icectl.spark.session import SparkOptions, missing_for_spark

        missing = missing_for_spark(SparkOptions(), self.context.environ)
        self.left_out = None if missing is None else missing.what
        copy = self.repository.with_name(f"{self.repository.name}-for-spark")
        self._say(f"$ export ICECTL_REPO={shlex.quote(str(self.repository))}", "")
        for meaning, line in TOUR:
            self._call(meaning, line)
        if self.left_out is None:
            self._copy_repository(copy)
        self._call(*COLLECT)
        if self.left_out is None:
            self._call(*COLLECT_WITH_SPARK, copy)
        else:
            self._say(f"# The same as a Spark job is left out: {self.left_out}", "")
        for meaning, line in AFTERWARDS:
            self._call(meaning, line)

    def _say(self, *lines: Line) -> None:
        if self.context.wants_text:
            self.context.output.write(lines)

    def _copy_repository(self, copy: Path) -> None:
        """With the times of the files, which say what is old enough to go."""
        names = shlex.join(["cp", "-a", str(self.repository), str(copy)])
        self._say("# A copy, to collect it with the other engine", f"$ {names}", "")
        try:
            shutil.copytree(self.repository, copy)
        except OSError as error:
            raise IcectlError(f"{copy} cannot be written: {error}") from None

    def _call(self, meaning: str, line: str, repository: Path | None = None) -> None:
        words = line.split()
        if repository is not None:
            words += ["-r", str(repository)]
        shown = shlex.join(["icectl", *words])
        self._say(((f"# {meaning}", "dim"),), ((f"$ {shown}", "title"),))
        options = self.context.options
        words += ["--quiet"] * options.quiet + ["--no-color"] * options.no_color
        environ = self.context.environ
        done = subprocess.run(
            [sys.executable, "-m", "icectl.cli.main", *words],
            env={**environ, "ICECTL_REPO": str(self.repository), "ICECTL_PAGER": "cat"},
            stdin=subprocess.DEVNULL,
            stdout=None if self.context.wants_text else subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        self._say("")
        self.steps.append(TourStep(shown, done.returncode, done.stdout))
        if done.returncode:
            raise IcectlError(f"{shown} failed with exit code {done.returncode}")
