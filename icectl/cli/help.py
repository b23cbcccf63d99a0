"""`icectl --help`, the help of a group, and `icectl --version`: from the tree, without typer."""

from __future__ import annotations

from collections.abc import Iterator

from icectl.cli.exit_codes import EXIT_CODES
from icectl.cli.tree import COMMANDS, GROUPS, Command, subcommands

REPORTED_PACKAGES = (
    "typer",
    "numpy",
    "flatbuffers",
    "zstandard",
    "msgpack",
    "fsspec",
    "s3fs",
    "gcsfs",
    "pyspark",
    "pyarrow",
    "icechunk",
)


def render_help() -> Iterator[str]:
    """The whole tree with the exit codes."""
    yield "Usage: icectl COMMAND [OPTIONS] [ARGUMENTS]"
    yield ""
    yield "Look at, check and clean Icechunk repositories."
    yield ""
    yield "Commands:"
    yield from _two_columns(_top_level())
    yield ""
    yield "Options:"
    yield from _two_columns(
        [
            ("-h, --help", "Show this, or the help of a command"),
            ("--version", "Show the versions that matter in a bug report"),
        ]
    )
    yield ""
    yield "Options stand after the command. Every command that opens a repository takes"
    yield "-r/--repo LOCATION; the default is $ICECTL_REPO, else the repository that the"
    yield "current directory is in. icectl COMMAND --help tells the rest."
    yield ""
    yield "Exit codes:"
    yield from _two_columns([(f"{code:>3}", meaning) for code, meaning in EXIT_CODES])


def render_group_help(group: str) -> Iterator[str]:
    yield f"Usage: icectl {group} COMMAND [OPTIONS] [ARGUMENTS]"
    yield ""
    yield f"{GROUPS[group]}."
    yield ""
    yield "Commands:"
    yield from _two_columns(_pairs(subcommands(group)))
    yield ""
    yield f"icectl {group} COMMAND --help tells the rest."


def render_version() -> Iterator[str]:
    """Versions from the installed metadata; nothing is imported to find them."""
    import platform
    from importlib import metadata

    from icectl import __version__

    yield f"icectl {__version__}"
    yield (
        f"python {platform.python_version()} ({platform.python_implementation()}, "
        f"{platform.system()} {platform.machine()})"
    )
    for package in REPORTED_PACKAGES:
        try:
            yield f"{package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            continue


def _top_level() -> list[tuple[str, str]]:
    """Commands of one word, and one line for each group, in the order of the tree."""
    lines: dict[str, str] = {}
    for command in COMMANDS:
        first = command.name.split(" ")[0]
        lines.setdefault(first, GROUPS.get(first) or command.summary)
    return list(lines.items())


def _pairs(commands: tuple[Command, ...]) -> list[tuple[str, str]]:
    return [(command.name.split(" ")[-1], command.summary) for command in commands]


def _two_columns(pairs: list[tuple[str, str]]) -> Iterator[str]:
    width = max(len(left) for left, _ in pairs)
    for left, right in pairs:
        yield f"  {left:<{width}}  {right}"
