"""README says what is: its output, its tables, its links and its JSON keys."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.app import COMMANDS, GROUPS, PROGRAM, root
from icectl.cli.options import Invocation
from icectl.format.repo import decode_repo, encode_repo
from tests.docs.conftest import Icectl
from tests.docs.readme import (
    PROJECT,
    README,
    blocks,
    commands,
    with_benchmarks,
    with_output,
    with_reference,
    with_section,
)

TEXT = README.read_text(encoding="utf-8")


def differences(now: str) -> str:
    return "\n".join(unified_diff(TEXT.splitlines(), now.splitlines(), "README.md", "now", n=1))


def test_every_output_is_what_the_command_prints() -> None:
    assert differences(with_output(TEXT)) == "", "run `make readme`"


def test_the_tables_of_the_reference_are_current() -> None:
    pytest.importorskip("pyarrow")
    assert differences(with_reference(TEXT)) == "", "run `make readme`"


def test_every_command_is_shown() -> None:
    shown = TEXT.replace("`", "")
    for command in COMMANDS:
        first, _, second = command.name.partition(" ")
        if first in GROUPS and GROUPS[first].default == second:
            second = ""  # the group alone
        assert re.search(rf"\b{first}\b.*\b{second}\b", shown), command.name


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
    context = group.make_context(name, words, obj=Invocation({}), resilient_parsing=False)
    while hasattr(group, "resolve_command") and context._protected_args:
        name, group, rest = group.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        context = group.make_context(name, rest, parent=context)


def test_links_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert len(links) > 20
    for link in links:
        if link.startswith("#"):
            assert link[1:] in anchors, link
        elif not link.startswith("https://"):
            assert (PROJECT / link).exists(), link


# ── JSON ─────────────────────────────────────────────────────────────────────────────────

CALLS = {
    "init": "init new",
    "log": "log",
    "show": "show main~5",
    "ls": "ls main /ocean",
    "diff": "diff main~6 main --chunks",
    "branch list": "branch list",
    "branch create": "branch create other",
    "tag list": "tag list",
    "tag create": "tag create other",
    "ops-log": "ops-log",
    "status": "status",
    "config get": "config get",
    "config set": "config set compression.level 3",
    "metadata get": "metadata get",
    "flags list": "flags list",
    "flags set": "flags set delete_tag off",
    "expire": "expire --keep-last 2 --dry-run",
    "gc": "gc --older-than 7d --dry-run",
    "validate": "validate --level chunks",
    "repair": "repair --dry-run",
    "stats": "stats",
    "export": "export refs --to tables --format csv",
    "inspect-file": "inspect-file repo",
    "remote add": "remote add other .",
    "remote list": "remote list",
    "doctor": "doctor",
    "demo": "demo another --writer icectl",
}


def keys_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from keys_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner)


def documented() -> dict[str, set[str]]:
    """The keys of each command's row, by the first command that the row names."""
    section = TEXT.partition("### JSON")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z -]+)`[^|]*\| (.*) \|$", section, re.MULTILINE)
    return {command: set(re.findall(r"`([a-z_]+)`", keys)) for command, keys in rows}


def test_the_documents_of_all_commands_are_described() -> None:
    assert documented().keys() == CALLS.keys()


@pytest.mark.parametrize("command", CALLS)
def test_documented_keys_are_printed(command: str, icectl: Icectl, demo: Path) -> None:
    if command in ("gc", "expire"):
        (demo / "manifests" / "MANIFESTTHATNOBODY00").write_bytes(b"")
    if command == "repair":
        info = decode_repo((demo / "repo").read_bytes())
        newest, *older = info.latest_updates
        updates = (replace(newest, updated_at=2**51), *older)
        (demo / "repo").write_bytes(encode_repo(replace(info, latest_updates=updates)))
    done = icectl(*CALLS[command].split(), "--json", ICECTL_REPO=str(demo), PATH="/usr/bin:/bin")
    assert done.stdout, done.stderr
    printed = set(keys_of(json.loads(done.stdout)))
    if command == "validate":  # a sound repository has no finding to show the keys of
        (demo / "chunks").rename(demo / "gone")
        printed |= set(
            keys_of(
                json.loads(icectl(*CALLS[command].split(), "--json", ICECTL_REPO=str(demo)).stdout)
            )
        )
    assert documented()[command] - printed == set()


# ── what makes README ────────────────────────────────────────────────────────────────────


def test_a_stale_output_is_found() -> None:
    """The comparison above can fail: a block is run again, not taken as it stands."""
    stale = "```console\n$ icectl branch list -r demo-repo/weather --json | tr a-z A-Z\nold\n```\n"
    renewed = with_output(stale)
    assert commands(renewed) == commands(stale)
    assert "REPROCESSING" in renewed
    assert "old" not in renewed


def test_a_command_that_fails_in_silence_is_found() -> None:
    with pytest.raises(RuntimeError, match="exit code 1"):
        with_output("```console\n$ false\n```\n")


def test_benchmarks_fill_their_table() -> None:
    side = {"seconds": 1.5, "megabytes": 80.2}
    result = {"job": "log", "baseline": "official", "theirs": side, "ours": side, "time_ratio": 1.0, "memory_ratio": None}  # fmt: skip
    document = {"scale": "full", "rounds": 3, "python": "3.13", "results": [result, {"job": "x", "error": "y"}]}  # fmt: skip
    filled = with_benchmarks(TEXT, document)
    assert "| log | official | 1.50 s, 80 MB | 1.50 s, 80 MB | 1.00 |  |" in filled
    assert with_section(filled, "benchmarks", []) == with_section(TEXT, "benchmarks", [])
