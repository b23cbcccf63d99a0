"""`icectl demo`: create a repository with a history and run the commands on it."""

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
        ("icectl demo demo-repo", "see all commands at work in half a minute"),
        ("icectl demo demo-repo --no-tour", "only create a repository for experiments"),
    )
}
POLICY = "--keep-last 3 --keep-weekly 4"
TOUR = (
    ("All commits, including those no longer on any branch", "log --graph --all --oneline"),
    ("The content of the newest version", "ls --tree"),
    ("The changes of the last six commits", "diff main~6 main"),
    ("All operations on the repository, not only commits", "ops-log -n 12"),
    ("Check the repository, including each chunk file", "validate --level chunks"),
    ("Storage usage", "stats"),
    ("The snapshots a retention policy would release, and why", f"expire {POLICY} --dry-run"),
    ("Release them", f"expire {POLICY} --yes"),
    ("Objects that are no longer referenced", "gc --older-than 7d --dry-run"),
)
COLLECT = ("Delete them", "gc --older-than 7d --yes")
COLLECT_WITH_SPARK = (
    "Collect the copy with a Spark job: the same plan, the same result",
    "gc --older-than 7d --yes --engine spark",
)
AFTERWARDS = (
    ("Still valid, and smaller; garbage of the last week remains", "validate --level chunks"),
    ("The ops log contains what happened", "ops-log -n 3"),
)


@dataclass(frozen=True, slots=True)
class TourStep:
    command: str
    exit_code: int
    output: str | None
    """Its standard output with --json; otherwise the command writes to the terminal itself."""


@dataclass(frozen=True, slots=True)
class Demo:
    location: str
    writer: str
    steps: tuple[TourStep, ...]
    left_out: str | None
    """Why the Spark part was skipped; None if it ran."""


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
            help="The writer of the repository: the official package (the default if it is "
            "installed) or icectl itself.",
        ),
    ] = None,
    no_tour: Annotated[
        bool, typer.Option("--no-tour", help="Create the repository but run no commands.")
    ] = False,
) -> None:
    """Create a demo repository and tour the commands.

    The repository contains six weeks of sea surface temperature: daily commits, a release, a
    branch, a commit that was reset, an abandoned experiment and a crashed writer, so there is
    something to show, expire and collect. Then the tour prints each command with its real output.
    It includes Spark if Java and pyspark are installed.

    Only new files in DIRECTORY are written; delete it when you are done.
    """
    from icectl.demo.write import (
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
        context.note(f"the repository remains in {repository}; delete {root} when you are done")
    else:
        steps = tuple(tour.steps)
        context.emit(Demo(str(repository), author, steps, tour.left_out), lambda _demo: ())


class Tour:
    """Runs commands on the demo repository, each in a separate process."""

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
            self._say(f"# The Spark job is skipped: {self.left_out}", "")
        for meaning, line in AFTERWARDS:
            self._call(meaning, line)

    def _say(self, *lines: Line) -> None:
        if self.context.wants_text:
            self.context.output.write(lines)

    def _copy_repository(self, copy: Path) -> None:
        """Copy with the times of the files, because gc deletes by age."""
        names = shlex.join(["cp", "-a", str(self.repository), str(copy)])
        self._say("# Make a copy for the other engine", f"$ {names}", "")
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
