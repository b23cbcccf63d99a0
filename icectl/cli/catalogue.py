"""Every command with all it takes, for what is generated: man pages and completions."""

from __future__ import annotations

import inspect

from icectl.cli.options import CommandFunction
from icectl.cli.parameters import Argument, Option, Parameter
from icectl.cli.parse import Examples, load
from icectl.cli.tree import COMMANDS, GROUPS
from icectl.records import dataclass

HELP_OPTION = Parameter(
    "help", Option("--help", "-h", help="Show the help and exit."), bool, False, False, False
)

COMPLETED = {
    "REF": "refs",
    "FROM": "refs",
    "TO": "refs",
    "BRANCH": "branches",
    "TAG": "tags",
    "REMOTE": "remotes",
    "LOCATION": "locations",
    "FILE": "files",
    "DIRECTORY": "directories",
    "KINDS": "words:snapshots transaction_logs manifests chunks",
}
"""What a metavar stands for, by the names that the completion scripts use."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    name: str
    summary: str
    paragraphs: tuple[str, ...]
    """The docstring: its first paragraph is the first here too."""
    function: CommandFunction
    examples: Examples

    @property
    def parameters(self) -> list[Parameter]:
        return [*self.function.parameters(), HELP_OPTION]

    @property
    def arguments(self) -> list[tuple[Parameter, Argument]]:
        return [(p, p.declaration) for p in self.parameters if isinstance(p.declaration, Argument)]

    @property
    def options(self) -> list[tuple[Parameter, Option]]:
        return [(p, p.declaration) for p in self.parameters if isinstance(p.declaration, Option)]


def read_catalogue() -> list[CatalogueEntry]:
    """All commands in the order of the tree; imports every command's module."""
    entries = []
    for command in COMMANDS:
        loaded = load(command)
        text = inspect.getdoc(loaded.function.body) or ""
        paragraphs = tuple(" ".join(part.split()) for part in text.split("\n\n"))
        entries.append(
            CatalogueEntry(
                command.name, command.summary, paragraphs, loaded.function, loaded.examples
            )
        )
    return entries


def completion_kind(declaration: Option | Argument) -> str:
    """`refs`, `files`, ..., `words:a b c`, or an empty text where nothing completes."""
    if declaration.choices:
        return "words:" + " ".join(declaration.choices)
    return COMPLETED.get(declaration.metavar, "")


def top_level(entries: list[CatalogueEntry]) -> dict[str, str]:
    words: dict[str, str] = {}
    for entry in entries:
        word = entry.name.split(" ")[0]
        words.setdefault(word, GROUPS.get(word) or entry.summary)
    return words


def groups(entries: list[CatalogueEntry]) -> dict[str, list[str]]:
    """First word -> the second words that may follow it."""
    found: dict[str, list[str]] = {}
    for name in pairs(entries):
        group, _, word = name.partition(" ")
        found.setdefault(group, []).append(word)
    return found


def pairs(entries: list[CatalogueEntry]) -> list[str]:
    return [entry.name for entry in entries if " " in entry.name]


def singles(entries: list[CatalogueEntry]) -> list[str]:
    return [entry.name for entry in entries if " " not in entry.name]
