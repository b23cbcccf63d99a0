"""`icectl demo`: create a repository with a history and run the commands on it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Literal

import typer

from icectl.cli.context import CommandContext
from icectl.cli.options import Flag, command
from icectl.demo.tour import Tour
from icectl.demo.write import check_directory, choose_author, parse_directory, write_demo_repository
from icectl.spark.session import SparkOptions, missing_for_spark

EXAMPLES = """
icectl demo demo-repo  # see all commands at work in half a minute
icectl demo demo-repo --no-tour  # only create a repository for experiments
"""


@command(repository=False)
def demo(
    context: CommandContext,
    directory: Annotated[
        str, typer.Argument(metavar="DIRECTORY"), "A new or an empty directory for the repository."
    ],
    writer: Annotated[
        Literal["icechunk", "icectl"] | None,
        typer.Option(),
        "The writer of the repository: the official package (the default if it is "
        "installed) or icectl itself.",
    ] = None,
    no_tour: Annotated[Flag, "Create the repository but run no commands."] = False,
) -> None:
    """Create a demo repository and tour the commands.

    The repository contains six weeks of sea surface temperature: daily commits, a release, a
    branch, a commit that was reset, an abandoned experiment and a crashed writer, so there is
    something to show, expire and collect. Then the tour prints each command with its real output,
    and writes a report to open in a browser. It includes Spark if Java and pyspark are installed.

    Only new files in DIRECTORY are written; delete it when you are done.
    """
    root = parse_directory(directory)
    check_directory(root)
    author = choose_author(writer)
    repository = root / "weather"
    write_demo_repository(repository, context.now(), author)
    context.note(f"{repository} was written by {author}")
    words = [*["--quiet"] * context.options.quiet, *["--no-color"] * context.options.no_color]

    def say(comment: str, line: str) -> None:
        if context.wants_text:
            if comment:
                context.output.write([((f"# {comment}", "dim"),)])
            if line or not comment:
                context.output.write([((f"$ {line}", "title"),) if line else ""])

    missing = missing_for_spark(SparkOptions(), context.environ)
    report = None if no_tour or find_spec("vl_convert") is None else root / "report.html"
    tour = Tour(
        repository,
        context.environ,
        words,
        say,
        is_shown=context.wants_text,
        without_spark=None if missing is None else missing.what,
        report=report,
    )
    steps = [] if no_tour else tour.run()
    if context.wants_text:
        if report is not None:
            context.note(f"the report is in {report}; open it in a browser")
        context.note(f"the repository remains in {repository}; delete {root} when you are done")
    else:
        left_out = None if no_tour else tour.without_spark
        document = {
            "location": str(repository),
            "writer": author,
            "steps": steps,
            "left_out": left_out,
            "report": None if report is None else str(report),
        }
        context.emit_json(document)
