"""Only the command line knows commands and options; the layers below name remedies."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from icectl.cli.app import COMMANDS
from icectl.cli.hints import HINTS, describe_hint
from icectl.errors import Remedy

PACKAGE = Path(__file__).parents[1] / "icectl"
BELOW_THE_COMMAND_LINE = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.relative_to(PACKAGE).parts[0] not in ("cli", "render")
]
MAY_NAME_COMMANDS = {
    # The level of the rules of --virtual.
    "checks/rules.py",
    # Ids are hashes of a text that begins with `icectl demo`.
    "demo/own.py",
    # The tour shows command lines.
    "demo/tour.py",
}
FIRST_WORDS = "|".join(sorted({command.name.split()[0] for command in COMMANDS}))
COMMAND_OR_OPTION = re.compile(
    rf"\bicectl (?:{FIRST_WORDS})\b|(?<!pip install )(?<![\w-])(?:--[a-z]{{2}}|-r\b)"
)


def named_commands(tree: ast.Module) -> list[str]:
    """Texts that name a command or an option of icectl, without docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        f"line {node.lineno}: {node.value}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        and COMMAND_OR_OPTION.search(node.value)
    ]


def remedies(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """Name and facts of each `Remedy("name", {"fact": …})`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Remedy":
            match node.args:
                case [ast.Constant(value=str(name))]:
                    yield name, set()
                case [ast.Constant(value=str(name)), ast.Dict(keys=keys)]:
                    yield name, {key.value for key in keys if isinstance(key, ast.Constant)}


def fields_of(template: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(template) if field is not None}


@pytest.mark.parametrize(
    "path", BELOW_THE_COMMAND_LINE, ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_no_layer_below_names_a_command(path: Path) -> None:
    if path.relative_to(PACKAGE).as_posix() not in MAY_NAME_COMMANDS:
        assert named_commands(ast.parse(path.read_text(encoding="utf-8"))) == []


def test_every_remedy_has_words_and_every_hint_is_used() -> None:
    used = [
        remedy
        for path in BELOW_THE_COMMAND_LINE
        for remedy in remedies(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert {name for name, _ in used} == HINTS.keys()
    assert [(name, facts) for name, facts in used if facts != fields_of(HINTS[name])] == []


def test_facts_are_quoted_for_the_shell() -> None:
    assert describe_hint("as it is") == "as it is"
    hint = describe_hint(Remedy("reset-branch", {"branch": "it's; rm {x}"}))
    assert """`icectl branch reset 'it'"'"'s; rm {x}' REF`""" in hint
    facts = {"skipped": "2 sources", "source": "URL", "them": "them"}
    assert describe_hint(Remedy("allow-source", facts)).startswith("2 sources; ")


def test_the_checks_can_fail() -> None:
    planted = ast.parse(
        '"""Docstring of `icectl gc --yes`."""\n'
        'raise IcectlError(f"{x} is closed", hint="`icectl status set online` opens it")\n'
        'raise IcectlError("add --allow-recent", hint=Remedy("a-name", {"branch": name}))\n'
        'print("this icectl does not know", "pip install --force-reinstall x", "bucket--x-s3")\n'
    )
    assert [text.split(":")[0] for text in sorted(named_commands(planted))] == ["line 2", "line 3"]
    assert list(remedies(planted)) == [("a-name", {"branch"})]
