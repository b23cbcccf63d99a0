"""The hand-written parts of the man pages agree with the program."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.checks.rules import catalogue
from icectl.cli import main
from icectl.cli.app import COMMANDS
from icectl.cli.maintenance_policy import KEYS
from icectl.format.repo import decode_repo, encode_repo
from icectl.storage.open import STORAGE_OPTIONS
from icectl.tables.names import TABLES
from tests.docs.demo_repository import environment
from tests.docs.man_pages import MANUAL


def read(page: str) -> str:
    return (MANUAL / f"{page}.md").read_text(encoding="utf-8")


def test_every_rule_is_inserted_once() -> None:
    prefixes = re.findall(r"\{\{rules (\w+)\}\}", read("icectl-rules.7"))
    for code in catalogue():
        assert sum(code.startswith(prefix) for prefix in prefixes) == 1, code


def test_every_table_has_its_columns() -> None:
    page = read("icectl-tables.7")
    assert re.findall(r"^### (\w+)$", page, re.MULTILINE) == list(TABLES)
    assert re.findall(r"\{\{columns (\w+)\}\}", page) == list(TABLES)


def test_every_storage_option_is_described() -> None:
    section = read("icectl-config.5").partition("## STORAGE OPTIONS")[2].partition("\n## ")[0]
    described = re.findall(r"^`(\w+)`\n: ", section, re.MULTILINE)
    assert described == [
        key for kind in ("s3", "gs", "az", "file") for key in STORAGE_OPTIONS[kind]
    ]


def test_every_key_of_the_maintenance_is_described() -> None:
    section = read("icectl-config.5").partition("## MAINTENANCE")[2].partition("\n## ")[0]
    described = re.findall(r"^`(\w+)`\n: ", section, re.MULTILINE)
    assert sorted(described) == sorted(KEYS)


# ── JSON ─────────────────────────────────────────────────────────────────────────────────

CALLS = {
    "init": "init new",
    "log": "log --stat",
    "show": "show main~5",
    "ls": "ls main /ocean",
    "diff": "diff main~6 main --chunks",
    "branch list": "branch list",
    "branch create": "branch create other",
    "tag list": "tag list",
    "tag create": "tag create other",
    "ops-log list": "ops-log",
    "ops-log show": "ops-log show @1",
    "undo": "undo --yes",
    "status show": "status",
    "config get": "config get",
    "config set": "config set compression.level 3",
    "metadata get": "metadata get",
    "metadata unset": "metadata unset owner",
    "flags list": "flags list",
    "flags set": "flags set delete_tag off",
    "expire": "expire --keep-last 2 --dry-run",
    "gc": "gc --older-than 7d --dry-run",
    "copy": "copy weather copied --dry-run",
    "validate": "validate --level chunks",
    "repair": "repair --dry-run",
    "maintain": "maintain --all --yes",
    "upgrade": "upgrade --dry-run",
    "stats": "stats --by branches --by tags --by snapshots --by growth --older-than 7d",
    "metrics": "metrics --deep",
    "report": "report --html page.html",
    "export": "export refs --to tables --format csv",
    "inspect-file": "inspect-file repo",
    "remote add": "remote add other .",
    "remote list": "remote list",
    "remote discover": "remote discover .",
    "doctor": "doctor",
    "demo": "demo another --writer icectl",
}
"""A call for the first command of each entry of the page; `sql` would start Spark."""

BEFORE = {
    "undo": "tag create other",
    "metadata unset": "metadata set owner 1",
    "remote list": "remote add other .",
}
"""Calls that give a command something to print."""

AFTERWARDS = {
    "ops-log show": (
        "metadata set x 1",
        "ops-log show @0",
        "expire --keep-last 2 --yes",
        "ops-log show @0",
    ),
    "upgrade": ("init ./old --spec-version 1", "upgrade -r ./old --to ./new --yes"),
}
"""More calls, whose documents have keys that the first one leaves empty."""

MAINTENANCE = """
[repositories.weather]
location = "{demo}"
policies = {{short = {{keep_last = 2}}}}
[repositories.weather.maintenance]
expire = "short"
gc_older_than = "7d"
validate = "chunks"
delete_branches = [{{match = "*", older_than = "1d"}}]
[repositories.missing]
location = "{demo}/nowhere"
maintenance = {{validate = "refs"}}
"""
"""For `maintain`: one with every step, and one that fails."""

DAMAGED = ("validate", "repair")
"""Commands with keys that only a damaged repository shows."""


def documented() -> dict[tuple[str, ...], set[str]]:
    """The keys of each entry, by the commands that it is about."""
    section = read("icectl-json.7").partition("## DOCUMENTS")[2].partition("\n## ")[0]
    entries = re.findall(r"^(`[^\n]+`)\n: (.*?)\n\n", section + "\n", re.MULTILINE | re.DOTALL)
    return {
        tuple(re.findall(r"`([a-z -]+)`", terms)): set(re.findall(r"`([a-z_]+)`", keys))
        for terms, keys in entries
    }


def keys_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from keys_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner)


def put_into_the_future(repository: Path) -> None:
    info = decode_repo((repository / "repo").read_bytes())
    newest, *older = info.latest_updates
    updates = (replace(newest, updated_at=2**51), *older)
    (repository / "repo").write_bytes(encode_repo(replace(info, latest_updates=updates)))


def test_the_documents_of_all_commands_are_described() -> None:
    described = [name for names in documented() for name in names]
    assert sorted(described) == sorted(command.name for command in COMMANDS)
    assert {names[0] for names in documented()} - CALLS.keys() == {"sql"}


@pytest.mark.parametrize("command", CALLS)
def test_documents_are_as_described(
    command: str, demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(demo.parent)
    variables = environment(demo.parent) | {"ICECTL_REPO": str(demo), "PATH": "/usr/bin:/bin"}
    if command in ("gc", "expire"):
        (demo / "manifests" / "MANIFESTTHATNOBODY00").write_bytes(b"")
    if command in DAMAGED:
        put_into_the_future(demo)
    if command == "maintain":
        config = demo.parent / ".config" / "icectl" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(MAINTENANCE.format(demo=demo))

    def run(line: str) -> dict[str, Any]:
        main.run([*line.split(), "--json"], variables)
        written = capsys.readouterr()
        assert written.out, written.err
        return json.loads(written.out)

    if command in BEFORE:
        run(BEFORE[command])
    printed, shown = run(CALLS[command]), list[Any]()
    if command == "validate":
        printed |= run("validate --explain ICE0001")
    for line in AFTERWARDS.get(command, ()):
        shown.append(run(line))
    (keys,) = (keys for names, keys in documented().items() if names[0] == command)
    others = {name for names in documented() for name in names}  # "as in `log`"
    assert keys - set(keys_of([printed, *shown])) - others == set(), "described, but not printed"
    assert printed.keys() - keys == set(), "printed, but not described"
