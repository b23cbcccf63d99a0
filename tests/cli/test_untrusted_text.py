"""Whatever a writer put into the repository: a terminal never acts on it."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from icectl.format.repo import decode_repo, encode_repo
from icectl.format.snapshot import decode_snapshot, encode_snapshot
from icectl.format.values import encode_flexbuffers, encode_metadata
from icectl.model.repo import (
    BranchCreatedUpdate,
    Ref,
    RepoInfo,
    RepoStatus,
    TagCreatedUpdate,
    Update,
)
from icectl.model.snapshot import ArrayNodeData, NodeSnapshot
from icectl.render.text import escape_cell, escape_commands
from tests.cli.small_repository import START, repo_info, sid, write_small_repository
from tests.cli.terminals import Terminal
from tests.command_line import Icectl

EVIL = "evil\x1b]0;title\x07\x1b[2J\r\n\u202e\x9b31m"
ACTING = set("\x1b\x07\r\x9b\u202e")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = write_small_repository(tmp_path_factory.mktemp("evil") / "repository")
    info = repo_info()
    edited = replace(
        info,
        branches=(*info.branches, Ref(EVIL, sid(3))),
        tags=(*info.tags, Ref(EVIL, sid(3))),
        deleted_tags=(EVIL + "2",),
        snapshots=tuple(replace(snapshot, message=EVIL) for snapshot in info.snapshots),
        status=RepoStatus(1, START, EVIL),
        metadata=encode_metadata({"evil": EVIL, "more\x1b": [EVIL, {EVIL[:4] + "\x9b": 1}]}, 2),
        config=encode_flexbuffers({"storage": {"storage_class": EVIL}}),
        latest_updates=(
            Update(TagCreatedUpdate(EVIL), START + 10**9),
            Update(BranchCreatedUpdate(EVIL), START + 10**9 - 1, EVIL.replace("\n", "")),
            *info.latest_updates[1:],
        ),
        repo_before_updates="missing\x1b[2J",
    )
    (directory / "repo").write_bytes(encode_repo(edited))
    change_array(directory, _evil)
    return directory


def change_array(directory: Path, change: Callable[[NodeSnapshot], NodeSnapshot]) -> None:
    """Change the array /b/t of the newest snapshot."""
    path = directory / "snapshots" / str(sid(3))
    snapshot = decode_snapshot(path.read_bytes())
    nodes = tuple(change(node) if node.path == "/b/t" else node for node in snapshot.nodes)
    path.write_bytes(encode_snapshot(replace(snapshot, nodes=nodes)))


def _evil(node: NodeSnapshot) -> NodeSnapshot:
    assert isinstance(node.node_data, ArrayNodeData)
    return replace(
        node,
        path=f"/b/{EVIL}",
        user_data=node.user_data.replace(b"float32", b"\\u001b[2J"),
        node_data=replace(node.node_data, dimension_names=(EVIL, None)),
    )


@pytest.mark.parametrize(
    "call",
    [
        "log", "log --oneline", "log --all --graph", "show", "ls", "ls main / --tree",
        "branch list", "tag list", "ops-log", "status", "config get", "metadata get",
        "metadata get evil", "config get storage.storage_class", "log nothing", "ls main /b/evil",
        "branch create new", "log --json", "ls --json", "ops-log --json", "metadata get --json",
        "metrics", "metrics --json",
    ],
)  # fmt: skip
def test_nothing_acts_on_the_terminal(icectl: Icectl, repository: Path, call: str) -> None:
    outcome = icectl(*call.split(), "-r", str(repository))
    assert outcome.code != 70
    assert "evil" in outcome.out + outcome.err or call in ("log nothing", "ls main /b/evil")
    assert ACTING & set(outcome.out + outcome.err) == set()


def test_refs_with_such_names_can_still_be_used(icectl: Icectl, repository: Path) -> None:
    outcome = icectl("log", f"branch:{EVIL}", "-n", "1", "--json", "-r", str(repository))
    assert outcome.document["snapshots"][0]["id"] == str(sid(3))


FORMULA = "=1+1"
COMMANDS = ("::error title=x::y", "  ::set-output name=a::b", "x ##[error]y", "\u200b::error::y")


def write_repo(directory: Path, info: RepoInfo) -> None:
    """The `repo` file, with its refs in the order that the format wants."""
    branches, tags = (
        tuple(sorted(refs, key=lambda ref: ref.name)) for refs in (info.branches, info.tags)
    )
    (directory / "repo").write_bytes(encode_repo(replace(info, branches=branches, tags=tags)))


@pytest.fixture(scope="module")
def commanding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts that are commands to GitHub's runner, and one that is a formula."""
    directory = write_small_repository(tmp_path_factory.mktemp("commands") / "repository")
    info = repo_info()
    message = "\n".join(COMMANDS)
    edited = replace(
        info,
        branches=(*(Ref(name, sid(3)) for name in COMMANDS), *info.branches),
        tags=(*(Ref(f"{name} tag", sid(3)) for name in COMMANDS), Ref(FORMULA, sid(1))),
        snapshots=tuple(replace(snapshot, message=message) for snapshot in info.snapshots),
        metadata=encode_metadata({name: name for name in COMMANDS}, 2),
        status=RepoStatus(0, START, COMMANDS[0]),
        config=encode_flexbuffers({"storage": {"storage_class": COMMANDS[0]}}),
    )
    write_repo(directory, edited)
    change_array(directory, lambda node: replace(node, path=f"/b/{COMMANDS[2]}"))
    return directory


def commands_in(text: str) -> list[str]:
    """As the runner finds them."""
    visible = re.sub("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]", "", text)
    return [
        line
        for line in visible.splitlines()
        if re.match(r"\s*::[^:]*::", line) or re.search(r"##\[.*?\]", line)
    ]


@pytest.mark.parametrize(
    "call",
    [
        "log", "log --oneline", "log --all --graph", "log --json", "log --jsonl", "show", "ls",
        "ls main / --tree", "ls --json", "branch list", "tag list", "ops-log", "status", "config get",
        "metadata get", "status --json", "config get storage.storage_class",
        "metadata get ::error_title=x::y", "metadata get --json", "validate", "validate --json",
        "branch create ::error_title=x::y", "tag create x_##[error]y_tag", "log ::error_title=x::y~9",
        "log y_##[error]y", "ls main ::error::y", "inspect-file repo", "log -r ::error::y",
        "log -r ##[error]y", "metrics", "metrics --json",
    ],
)  # fmt: skip
def test_no_line_is_a_command_to_a_workflow(
    icectl: Icectl, commanding: Path, call: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        word.replace("_", " ") if "[" in word or "::" in word else word for word in call.split()
    ]
    outcome = icectl(*words, *([] if "-r" in words else ["-r", str(commanding)]))
    assert outcome.code != 70
    assert commands_in(outcome.out + outcome.err) == []
    if "--json" in words:
        assert isinstance(outcome.document, dict)


def test_commands_are_escaped_in_json_without_loss(icectl: Icectl, commanding: Path) -> None:
    document = icectl("metadata", "get", "--json", "-r", str(commanding)).document
    assert set(COMMANDS) <= set(json.loads(json.dumps(document["metadata"])))


@pytest.mark.parametrize("text", [*COMMANDS, "\u00a0::warning::", "#\u200b#[group]"])
def test_a_command_is_escaped_as_text(text: str) -> None:
    assert commands_in(text) == [text.replace("\u200b", "")]
    assert commands_in(escape_commands(text)) == []
    assert escape_commands("a::b ## [c] é: :") == "a::b ## [c] é: :"


@pytest.mark.parametrize("text", ["\x1b]0;x\x07", "a%0Ab", "a\r\nb", "\u202e", "##[error]x"])
def test_annotations_hold_no_escapes(icectl: Icectl, tmp_path: Path, text: str) -> None:
    """One line for each finding, and nothing in it that a terminal or the runner acts on."""
    directory = write_small_repository(tmp_path / "repository")
    change_array(directory, lambda node: replace(node, path=f"/b/{text}", user_data=b"no JSON"))
    write_repo(directory, replace(repo_info(), repo_before_updates=f"missing{text}"))
    outcome = icectl("validate", "--github", "-r", str(directory))
    assert outcome.code == 3
    lines = outcome.out.splitlines()
    assert any("/b/" in line for line in lines)
    assert all(re.match("::(error|warning|notice) title=", line) for line in lines)
    assert not set("\x1b\x07\r\u202e") & set(outcome.out + outcome.err)
    assert "##[" not in outcome.out
    assert "a%0Ab" not in outcome.out or "\n" in text


def test_cells_are_no_formulas(icectl: Icectl, tmp_path: Path) -> None:
    place = ("-r", str(tmp_path / "repository"))
    names = ["=1+1", "@x", "+1", "-1", "a=b", COMMANDS[0], COMMANDS[2]]
    assert icectl("init", *place).code == 0
    for name in names:
        assert icectl("tag", "create", *place, "--", name).code == 0
        assert icectl("branch", "create", *place, "--", name).code == 0
    info = decode_repo((tmp_path / "repository" / "repo").read_bytes())
    evil = Ref("e\x1b[2J", info.branches[0].snapshot_id)  # icectl itself takes no such name
    refs = {"branches": (*info.branches, evil), "tags": (*info.tags, evil)}
    write_repo(tmp_path / "repository", replace(info, **refs))
    for by in ("tags", "branches"):
        printed = icectl("stats", "--by", by, "--csv", *place)
        assert printed.code == 0
        assert ACTING & set(printed.out) == set()
        assert commands_in(printed.out) == []
        rows = list(csv.DictReader(io.StringIO(printed.out)))
        assert "e\\x1b[2J" in {row["name"] for row in rows}
        assert {"'=1+1", "'@x", "'+1", "'-1", "a=b"} <= {row["name"] for row in rows}
        assert all(
            cell.isdecimal() for row in rows for name, cell in row.items() if "bytes" in name
        )
    cells = [escape_cell(text) for text in ("\t=x", "＝x", "a\nb", "")]
    assert cells == ["'\\t=x", "'＝x", "a\\nb", ""]


def test_raw_bytes_never_reach_a_terminal(repository: Path, environ: dict[str, str]) -> None:
    call = ["inspect-file", "--raw", str(repository / "repo")]
    with Terminal([sys.executable, "-m", "icectl.cli.main", *call], environ) as terminal:
        shown, code = terminal.finish()
    assert code == 2
    assert "evil" not in shown
    assert "hint: " in shown


@pytest.mark.parametrize("name", ["a; touch pwned", "$(touch pwned)", "`x`", "-x", "it's", "a b"])
def test_names_in_hints_are_single_words(icectl: Icectl, tmp_path: Path, name: str) -> None:
    place = ("-r", str(write_small_repository(tmp_path / "repository")))
    assert icectl("branch", "create", *place, "--", name, "main").code == 0
    word = f"-- {shlex.quote(name)}" if name.startswith("-") else shlex.quote(name)
    error = icectl("branch", "create", "--json", *place, "--", name, "main").error
    assert f" {word} REF" in error["hint"]
    error = icectl("log", "--json", *place, "--", f"{name}~99").error
    assert f" {word}" in error["hint"]
