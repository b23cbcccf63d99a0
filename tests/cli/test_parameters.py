"""Our parser accepts what typer accepts, with the same values, and refuses what it refuses."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.cli.options import command
from icectl.cli.parameters import Argument, NotUnderstoodError, Option, parse_words
from icectl.cli.parse import LoadedCommand, parse_with_typer
from icectl.cli.tree import Command
from icectl.errors import UsageError


@command(jsonl=True)
def body(
    context: Any,
    name: Annotated[str, Argument("NAME", help="n")],
    rest: Annotated[list[str], Argument("REST", help="r")] = (),  # type: ignore[assignment]
    number: Annotated[
        int | None, Option("--number", "-n", metavar="N", minimum=1, help="h")
    ] = None,
    ratio: Annotated[float, Option("--ratio", metavar="R", help="h")] = 0.5,
    level: Annotated[str, Option("--level", "-l", choices=("low", "high"), help="h")] = "low",
    paths: Annotated[list[str], Option("--path", "-p", metavar="P", help="h")] = (),  # type: ignore[assignment]
    force: Annotated[bool, Option("--force", "-f", help="h")] = False,
) -> None:
    """Something."""


PARAMETERS = body.parameters()
LOADED = LoadedCommand(Command("thing", "Something", "thing:body"), body, ())


def by_us(words: list[str]) -> dict[str, Any] | None:
    try:
        return parse_words(PARAMETERS, words)
    except NotUnderstoodError:
        return None


def by_typer(words: list[str]) -> dict[str, Any] | None:
    try:
        return parse_with_typer(LOADED, PARAMETERS, words)
    except UsageError:
        return None


def comparable(values: dict[str, Any] | None) -> dict[str, Any] | None:
    """An option that was not given any number of times is (), [] or None."""
    if values is None:
        return None
    return {name: value if value not in ((), [], None) else None for name, value in values.items()}


WORDS = st.sampled_from(
    [
        "a", "b", "-", "--", "-n", "--number", "3", "0", "-n3", "-n=3", "--number=4", "--number=",
        "--ratio", "1.5", "--ratio=x", "-l", "low", "--level=high", "-llow", "--level", "middle",
        "-p", "--path=x", "-px", "-f", "--force", "--force=1", "-fv", "-vfq", "-vv", "--json",
        "--jsonl", "-r", "-rx", "--repo", "--repo=s3://x", "-q", "--nope", "-z", "-fn", "-fn5",
        "--num", "-5", "--storage-option", "k=v", "--no-color", "",
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(WORDS, max_size=6))
def test_agrees_with_typer(words: list[str]) -> None:
    assert comparable(by_us(words)) == comparable(by_typer(words))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["x", "--number", "2", "y", "-fv", "z"],
            {"name": "x", "rest": ["y", "z"], "number": 2, "force": True, "verbose": 1},
        ),
        (["--", "-x", "--json"], {"name": "-x", "rest": ["--json"], "json": False}),
        (["x", "-pa", "-p", "b", "--path=c"], {"paths": ["a", "b", "c"]}),
        (["x"], {"ratio": 0.5, "level": "low", "number": None, "repo": None}),
    ],
)
def test_values(words: list[str], expected: dict[str, Any]) -> None:
    found = by_us(words)
    assert found is not None
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["x", "--nope"],
        ["x", "-n"],
        ["x", "-n", "0"],
        ["x", "-n", "many"],
        ["x", "--force=1"],
        ["x", "-l", "mid"],
        ["x", "--help"],
    ],
)
def test_leaves_the_rest_to_typer(words: list[str]) -> None:
    assert by_us(words) is None
