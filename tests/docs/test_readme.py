"""README is true: its output, its commands and its links."""

from __future__ import annotations

import re
import shlex
from difflib import unified_diff

import pytest

from icectl.cli.app import PROGRAM, root, subcommands
from icectl.cli.context import CommandContext
from tests.docs.readme import (
    BENCHMARKS,
    PROJECT,
    README,
    blocks,
    commands,
    with_all_benchmarks,
    with_benchmarks,
    with_output,
)

TEXT = README.read_text(encoding="utf-8")


def test_every_output_is_what_the_command_prints() -> None:
    pytest.importorskip("pyarrow")
    now = with_output(TEXT)
    changes = unified_diff(TEXT.splitlines(), now.splitlines(), "README.md", "now", n=1)
    assert "\n".join(changes) == "", "run `make readme`"


def test_is_short() -> None:
    assert len(TEXT.splitlines()) <= 265, "the reference belongs in icectl/cli/manual/"


@pytest.mark.parametrize("word", subcommands())
def test_every_command_is_mentioned(word: str) -> None:
    assert re.search(rf"(icectl |`){word}\b", TEXT)


@pytest.mark.parametrize(
    "line",
    [
        line
        for block in blocks(TEXT, "sh")
        for line in block.splitlines()
        if line.startswith("icectl ") and "--version" not in line
    ],
)
def test_commands_that_are_not_run_are_understood(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    group, name = root(), PROGRAM
    context = group.make_context(name, words, obj=CommandContext({}), resilient_parsing=False)
    while hasattr(group, "resolve_command") and context._protected_args:
        name, group, rest = group.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        context = group.make_context(name, rest, parent=context)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_lead_to_files(name: str) -> None:
    text = (PROJECT / name).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert links or name == "SECURITY.md"
    for link in links:
        assert link.startswith("https://") or (PROJECT / link).exists(), link


def test_contributing_names_files_that_exist() -> None:
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:icectl|tests)/[\w./-]+)`", text)
    assert len(paths) > 30
    missing = [path for path in paths if "NAME" not in path and not (PROJECT / path).exists()]
    assert missing == []


# ── the tool ─────────────────────────────────────────────────────────────────────────────


def test_a_stale_output_is_found() -> None:
    stale = "```console\n$ icectl branch list -r demo-repo/weather --json | tr a-z A-Z\nold\n```\n"
    renewed = with_output(stale)
    assert commands(renewed) == commands(stale)
    assert "REPROCESSING" in renewed
    assert "old" not in renewed


def test_a_command_that_fails_silently_is_found() -> None:
    with pytest.raises(RuntimeError):
        with_output("```console\n$ false\n```\n")


def test_benchmarks_update_the_tables() -> None:
    side = {"seconds": 1.5, "megabytes": 80.2}
    result = {"baseline": "official", "theirs": side, "ours": side, "time_ratio": 1.0, "memory_ratio": None}  # fmt: skip
    results = [
        {"job": "expire 100,000 snapshots", **result},
        {"job": "a new job", **result},
        {"job": "stats, virtual refs", "error": "failed"},
    ]
    document = {"scale": "full", "rounds": 3, "python": "3.13", "results": results}
    readme = with_benchmarks(TEXT, document)
    changed = set(readme.splitlines()) - set(TEXT.splitlines())
    assert changed == {
        "| expire 100,000 snapshots | official | 1.50 s, 80 MB | 1.50 s, 80 MB | 1.00 |  |"
    }
    page = with_all_benchmarks(BENCHMARKS.read_text(encoding="utf-8"), document)
    assert "| a new job | official |" in page
    assert "stats, virtual refs" not in page
