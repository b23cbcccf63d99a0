"""`icectl diff` as a user and a script meet it; ids are replaced by their names."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from icectl.ops.diff import chunks as chunks_of_arrays
from icectl.ops.diff.chunks import read_chunk_changes
from icectl.ops.diff.nodes import diff_nodes
from icectl.ops.diff.versions import select_versions
from icectl.render.diff import render_diff
from icectl.render.screen import draw, make_console
from tests.command_line import Icectl, Outcome
from tests.diff.facts import open_ours
from tests.official import copied
from tests.official.histories import commit, create

PLAIN: dict[str, Any] = {"dtype": "i4", "compressors": None, "fill_value": 0}


@pytest.fixture(scope="module")
def built_repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    directory = tmp_path_factory.mktemp("command") / "repo"
    repo = create(directory)
    names = {}

    def name(text: str, branch: str = "main") -> None:
        names[text] = repo.lookup_branch(branch)

    name("ROOT")
    with commit(repo, "start") as root:
        root.create_array("air/temperature", shape=(8, 6), chunks=(2, 2), **PLAIN)[:4] = 1
        root.create_array("air/wind", shape=(4,), chunks=(1,), **PLAIN)[:] = 1
        root.create_array("old", shape=(3,), chunks=(1,), **PLAIN)[:] = 1
        root.create_group("notes")
        root["air/temperature"].attrs.update({"units": "K", "source": "x"})
    name("START")
    repo.create_branch("side", names["START"])
    with commit(repo, "change") as root:
        del root["old"]
        temperature = root["air/temperature"]
        temperature.resize((10, 6))
        temperature[2:6, :4] = 2
        temperature.attrs.put({"units": "C", "scale": 0.5})
        root.create_array("new", shape=(2,), chunks=(1,), **PLAIN)[:] = 3
    session = repo.rearrange_session("main")
    session.move("/air/wind", "/wind")
    session.move("/notes", "/remarks")
    session.commit("move")
    name("MAIN")
    with commit(repo, "side", branch="side") as root:
        root["air/wind"][1:3] = 9
    name("SIDE", "side")
    return directory, names


@pytest.fixture
def repository(built_repository: tuple[Path, dict[str, str]], tmp_path: Path) -> Path:
    return copied(built_repository[0], tmp_path / "repo")


@pytest.fixture
def diff(icectl: Icectl, repository: Path, built_repository: tuple[Path, dict[str, str]]) -> Icectl:
    names = built_repository[1]

    def call(*arguments: str) -> Outcome:
        words = [names.get(word, word) for word in arguments]
        outcome = icectl("diff", "-r", str(repository), *words)
        out, err = outcome.out, outcome.err
        for text, id_ in names.items():
            out, err = out.replace(id_, text), err.replace(id_, text)
        return Outcome(outcome.code, out, err)

    return call


def test_tree(diff: Icectl) -> None:
    assert diff("START") == Outcome(
        0,
        """\
from START to MAIN, by transaction logs
/
├── air
│   └── ~ temperature  2 chunks added, 2 overwritten
│           shape: [8, 6] → [10, 6]
│           attributes/units: "K" → "C"
│           - attributes/source: "x"
│           + attributes/scale: 0.5
├── + new  2 chunks added
├── - old
├── → remarks  from /notes
└── → wind  from /air/wind
1 new array, 1 deleted array, 1 updated array, 2 moved nodes, 4 chunks added, 2 chunks overwritten
""",
        "",
    )


def test_chunks_as_ranges(diff: Icectl) -> None:
    lines = diff("START", "MAIN", "--chunks").out.splitlines()
    assert "│           added: [2, 0-1]" in lines
    assert "│           overwritten: [1, 0-1]" in lines
    assert "│       added: 0-1" in lines


def test_by_content_between_branches(diff: Icectl) -> None:
    assert diff("side", "main").out == (
        """\
from SIDE to MAIN, by content
/
├── air
│   └── ~ temperature  2 chunks added, 2 overwritten
│           shape: [8, 6] → [10, 6]
│           attributes/units: "K" → "C"
│           - attributes/source: "x"
│           + attributes/scale: 0.5
├── + new  2 chunks added
├── - old
├── → remarks  from /notes
└── → wind  from /air/wind; 2 chunks overwritten
1 new array, 1 deleted array, 1 updated array, 2 moved nodes, 4 chunks added, 4 chunks overwritten
"""
    )


def test_merge_base(diff: Icectl) -> None:
    assert diff("main", "side", "--merge-base").out == (
        """\
from START to SIDE, by transaction logs
/
└── air
    └── ~ wind  2 chunks overwritten
2 chunks overwritten
"""
    )


def test_one_commit(diff: Icectl) -> None:
    assert diff("--commit", "side").out == diff("side~1", "side").out
    assert diff("--commit", "main", "--name-only").out == "/remarks\n/wind\n"


def test_stat(diff: Icectl) -> None:
    assert diff("START", "--stat").out == (
        """\
   PATH              ADDED  OVERWRITTEN  DELETED  BYTES ADDED  BYTES REMOVED
~  /air/temperature      2            2        0         64 B           32 B
+  /new                  2            0        0          8 B            0 B
-  /old                  0            0        3          0 B           12 B
→  /remarks
→  /wind
1 new array, 1 deleted array, 1 updated array, 2 moved nodes, 4 chunks added, 2 chunks overwritten, 3 chunks deleted
72 B newly referenced, 44 B no longer referenced
"""
    )


def test_stat_has_both_arrays_of_a_path(icectl: Icectl, tmp_path: Path) -> None:
    repo = create(tmp_path)
    with commit(repo, "start") as root:
        for name in ("replaced", "deleted", "moved"):
            root.create_array(name, shape=(2,), chunks=(1,), **PLAIN)[:] = 1
    repo.create_branch("old", repo.lookup_branch("main"))
    with commit(repo, "replace") as root:
        root.create_array("replaced", shape=(1,), chunks=(1,), overwrite=True, **PLAIN)[:] = 2
        del root["deleted"]
    session = repo.rearrange_session("main")
    session.move("/moved", "/deleted")
    session.commit("move")
    with commit(repo, "write") as root:
        root["deleted"][:1] = 7
    with commit(repo, "not an ancestor", branch="old") as root:
        root.create_group("group")
    by_logs = icectl("diff", "-r", str(tmp_path), "old~1", "main", "--stat")
    assert by_logs.out == (
        """\
    PATH       ADDED  OVERWRITTEN  DELETED  BYTES ADDED  BYTES REMOVED
-→  /deleted       0            1        2          4 B           12 B
-+  /replaced      1            0        2          4 B            8 B
1 new array, 2 deleted arrays, 1 moved node, 1 chunk added, 1 chunk overwritten, 4 chunks deleted
8 B newly referenced, 20 B no longer referenced
"""
    )
    document = icectl("diff", "-r", str(tmp_path), "old~1", "main", "--stat", "--json").document
    assert document["deleted_chunks"] == [
        {"path": path, "num_chunks": 2, "bytes": 8} for path in ("/deleted", "/replaced")
    ]
    by_content = icectl("diff", "-r", str(tmp_path), "old", "main", "--stat").out
    assert "-→  /deleted       0            1        2          4 B           12 B\n" in by_content
    tree = icectl("diff", "-r", str(tmp_path), "old", "main").out
    assert "-→ deleted  replaced by the node from /moved; 1 chunk overwritten\n" in tree


def test_name_only(diff: Icectl) -> None:
    expected = "/air/temperature\n/new\n/old\n/remarks\n/wind\n"
    assert diff("START", "--name-only").out == expected
    assert diff("side", "main", "--name-only").out == expected


def test_name_only_by_logs_reads_no_manifest(diff: Icectl, repository: Path) -> None:
    for manifest in (repository / "manifests").iterdir():
        manifest.unlink()
    assert diff("START", "--name-only").code == 0
    failed = diff("START")
    assert failed.code == 13
    assert "manifests/" in failed.err


def test_path(diff: Icectl) -> None:
    assert diff("START", "--path", "/air", "--name-only").out == "/air/temperature\n/wind\n"
    assert diff("START", "--path", "wind/", "--name-only").out == "/wind\n"
    assert diff("START", "--path", "/old", "--name-only").out == "/old\n"
    missing = diff("START", "--path", "/air/temprature")
    assert missing.code == 12
    assert missing.err == (
        "icectl: error: neither version has a node /air/temprature\n"
        "hint: did you mean /air/temperature?\n"
    )


def test_json(diff: Icectl) -> None:
    assert diff("START", "--json", "--chunks").document == {
        "from": "START",
        "to": "MAIN",
        "method": "transaction_logs",
        "fallback": None,
        "new_groups": [],
        "new_arrays": ["/new"],
        "deleted_groups": [],
        "deleted_arrays": ["/old"],
        "updated_groups": [],
        "updated_arrays": ["/air/temperature"],
        "moved_nodes": [
            {"from": "/notes", "to": "/remarks"},
            {"from": "/air/wind", "to": "/wind"},
        ],
        "metadata_changes": [
            {
                "path": "/air/temperature",
                "changes": [
                    {"pointer": "/shape", "before": [8, 6], "after": [10, 6]},
                    {"pointer": "/attributes/units", "before": "K", "after": "C"},
                    {"pointer": "/attributes/source", "before": "x"},
                    {"pointer": "/attributes/scale", "after": 0.5},
                ],
            }
        ],
        "updated_chunks": [
            {
                "path": "/air/temperature",
                "num_chunks": 4,
                "num_added": 2,
                "num_overwritten": 2,
                "num_deleted": 0,
                "bytes_added": 64,
                "bytes_removed": 32,
                "chunks": [[1, 0], [1, 1], [2, 0], [2, 1]],
                "added": [[2, 0], [2, 1]],
                "overwritten": [[1, 0], [1, 1]],
                "deleted": [],
            },
            {
                "path": "/new",
                "num_chunks": 2,
                "num_added": 2,
                "num_overwritten": 0,
                "num_deleted": 0,
                "bytes_added": 8,
                "bytes_removed": 0,
                "chunks": [[0], [1]],
                "added": [[0], [1]],
                "overwritten": [],
                "deleted": [],
            },
        ],
        "deleted_chunks": [],
    }


def test_json_without_chunks_and_with_stat(diff: Icectl) -> None:
    document = diff("START", "--json", "--stat").document
    assert all("chunks" not in entry for entry in document["updated_chunks"])
    assert document["deleted_chunks"] == [{"path": "/old", "num_chunks": 3, "bytes": 12}]


def test_jsonl(diff: Icectl) -> None:
    lines = [json.loads(line) for line in diff("START", "--jsonl").out.splitlines()]
    assert [(line["change"], line.get("path") or line["to"]) for line in lines] == [
        ("new_arrays", "/new"),
        ("deleted_arrays", "/old"),
        ("updated_arrays", "/air/temperature"),
        ("moved_nodes", "/remarks"),
        ("moved_nodes", "/wind"),
        ("updated_chunks", "/air/temperature"),
        ("updated_chunks", "/new"),
    ]
    assert lines[2]["changes"][0] == {"pointer": "/shape", "before": [8, 6], "after": [10, 6]}
    assert lines[5]["num_chunks"] == 4


def test_jsonl_has_every_list_of_the_document(diff: Icectl) -> None:
    lines = [json.loads(line) for line in diff("START", "--jsonl", "--stat").out.splitlines()]
    (deleted,) = diff("START", "--json", "--stat").document["deleted_chunks"]
    assert {"change": "deleted_chunks", **deleted} in lines


@pytest.mark.parametrize("form", [[], ["--json"], ["--jsonl"], ["--name-only"], ["--stat"]])
def test_exit_code(diff: Icectl, form: list[str]) -> None:
    assert diff("START", "--exit-code", *form).code == 3
    assert diff("START", *form).code == 0
    same = diff("main", "main", "--exit-code", *form)
    assert same.code == 0
    if form != ["--json"]:
        assert same.out == ""
    assert diff("side~1", "START", "--exit-code", *form).code == 0
    # Only chunks differ here.
    assert diff("--commit", "side", "--exit-code", *form).code == 3


def test_no_difference_is_said(diff: Icectl) -> None:
    assert diff("main", "main") == Outcome(0, "", "icectl: no differences\n")
    assert diff("main", "main", "--quiet") == Outcome(0, "", "")


def test_fallback_is_said(diff: Icectl, repository: Path) -> None:
    expected = diff("START").out.replace("transaction logs", "content")
    log = repository / "transactions" / str(open_ours(repository).resolve("main").snapshot_id)
    log.unlink()
    outcome = diff("START", "--quiet")
    assert outcome.code == 0
    assert outcome.out == expected
    assert outcome.err == (
        "icectl: warning: the transaction log transactions/MAIN is missing; "
        "comparing the content instead\n"
    )
    document = diff("START", "--json").document
    assert document["method"] == "content"
    assert "is missing" in document["fallback"]


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ([], 2, ""),
        (["main", "--commit", "main"], 2, "--commit"),
        (["--merge-base", "--commit", "main"], 2, "--commit"),
        (["START", "--stat", "--chunks"], 2, "--stat"),
        (["START", "MAIN", "SIDE"], 2, ""),
        (["mian"], 12, "mian"),
        (["main", "sied"], 12, "sied"),
        (["main~9"], 12, "main"),
        (["--commit", "ROOT"], 12, "ROOT"),
        (["./somewhere"], 2, "./somewhere"),
        (["START", "--path", "/zzz"], 12, "`icectl ls MAIN"),
    ],
)
def test_wrong_input(diff: Icectl, arguments: list[str], code: int, named: str) -> None:
    outcome = diff(*arguments, "--json")
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.error["kind"] == {2: "usage", 12: "ref_not_found"}[code]
    assert named in f"{outcome.error['message']} {outcome.error['hint']}"
    as_json = diff(*arguments, "--json")
    assert as_json.code == code
    assert as_json.error["exit_code"] == code


def test_colours_and_width(built_repository: tuple[Path, dict[str, str]]) -> None:
    directory, names = built_repository
    ours = open_ours(directory)
    nodes = diff_nodes(ours, select_versions(ours, names["START"], "main"))
    chunks = list(read_chunk_changes(ours, nodes))
    stream = io.StringIO()
    console = make_console(stream, {"TERM": "xterm", "COLUMNS": "60"}, terminal=True)
    draw(render_diff(nodes, chunks, coordinates=False), console)
    coloured = stream.getvalue()
    assert "\x1b[32m+ new\x1b[0m" in coloured
    assert "\x1b[1;31m- old\x1b[0m" in coloured
    assert "\x1b[36m→ wind\x1b[0m" in coloured
    assert "\x1b[33m~ temperature\x1b[0m" in coloured
    assert max(len(Text.from_ansi(line)) for line in coloured.splitlines()) <= 60


def test_control_characters_are_escaped(icectl: Icectl, tmp_path: Path) -> None:
    repo = create(tmp_path / "repo")
    with commit(repo, "evil") as root:
        root.create_group("evil\x1b[31m")
    with commit(repo, "evil") as root:
        root["evil\x1b[31m"].attrs["\x1b]0;x"] = "\x1b[2J\u202e"
    for form in ([], ["--name-only"], ["--stat"], ["--json"], ["--jsonl"]):
        out = icectl("diff", "main~1", "-r", str(tmp_path / "repo"), *form).out
        assert "evil" in out
        assert "\x1b" not in out
        assert "\u202e" not in out


def test_manifests_that_take_long_are_read_only_when_asked(
    diff: Icectl, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks_of_arrays, "REFERENCES_UNASKED", 0)
    as_json = json.loads(diff("START", "--json").out)
    for manifest in (repository / "manifests").iterdir():
        manifest.unlink()
    outcome = diff("START")
    assert outcome.code == 0
    assert "4 chunks" in outcome.out and "6 chunks" in outcome.out.splitlines()[-1]
    assert sum(one["num_chunks"] for one in as_json["updated_chunks"]) == 6
    assert diff("START", "--exit-code", "--quiet").code == 3
    for option in ("--stat", "--chunks", "--json", "--jsonl"):
        assert diff("START", option).code != 0
