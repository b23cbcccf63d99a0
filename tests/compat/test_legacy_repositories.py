"""Repositories in the layouts of 0.1.0-alpha.4 and alpha.15, built here: every command reads them.

The fixtures beside the project are real ones of these releases; these stand in for them where
they are not there, and can be varied.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from icectl.format.envelope import MAGIC
from icectl.model.ids import ManifestId, ObjectId, SnapshotId
from tests.command_line import Icectl
from tests.format.legacy_files import Map, pack

SNAPSHOT, MANIFEST, TRANSACTION_LOG = 1, 2, 4
NAMES = [SnapshotId(bytes([number] * 12)) for number in range(3)]
FIRST_ID = SnapshotId(b"inside first")
"""What alpha.4 wrote into its first snapshot, whose file has another name."""
MANIFESTS = [ManifestId(bytes([number] * 12)) for number in (11, 12)]
MESSAGES = ["Repository initialized", "create", "overwrite"]
TIMES = [f"2024-10-13T18:53:4{number}.4Z" for number in range(3)]


def write(path: Path, content: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def write_refs(root: Path) -> None:
    for number, name in enumerate(NAMES):
        ref = json.dumps({"snapshot": str(name)})
        write(root / f"refs/branch.main/ZZZZZZZ{'ZYX'[number]}.json", ref)
    write(root / "refs/tag.v1/ref.json", json.dumps({"snapshot": str(NAMES[1])}))


def array(shape: list[int], chunks: list[int], data_type: str, fill: object) -> list[object]:
    codecs = [["bytes", {"endian": "little"}]]
    return [shape, data_type, chunks, "Slash", fill, codecs, [], None]


def alpha_4(root: Path) -> Path:
    """No headers, no logs; ids are text, nodes are numbered, all chunks are in one manifest."""
    write_refs(root)
    ids = [FIRST_ID, *NAMES[1:]]
    commits = [[str(ids[n]), TIMES[n], MESSAGES[n]] for n in range(3)]
    for number, name in enumerate(NAMES):
        manifest = [str(MANIFESTS[number - 1])] if number else []
        where = [[one, []] for one in manifest]
        nodes: dict[str, object] = {}
        if number:
            big = array([4, 4], [2, 2], "int8", {"Int8": 0})
            small = array([3], [1], "int8", {"Int8": 0})
            nodes = {
                "/": [1, "/", {"Inline": {}}, "Group"],
                "/big": [2, "/big", {"Inline": {"a": 1}}, {"Array": [big, where]}],
                "/small": [3, "/small", {"Inline": {}}, {"Array": [small, where]}],
            }
        top = [0, {}, [[one, 0] for one in manifest], [], number, number]
        history = commits[:number][::-1]
        snapshot = [*top, history, commits[number], TIMES[number], {}, nodes]
        write(root / f"snapshots/{name}", pack(snapshot))
    for name in ("AAAAAAAAAAAAAAAAAAAG", "BBBBBBBBBBBBBBBBBBBG"):
        write(root / f"chunks/{name}", b"four")
    small_refs = [([3, [index]], {"Inline": b"s"}) for index in range(3)]
    first = {"Ref": ["AAAAAAAAAAAAAAAAAAAG", 0, 4]}
    write(root / f"manifests/{MANIFESTS[0]}", pack([0, {}, Map(([2, [0, 0]], first), *small_refs)]))
    # The second commit wrote the array /big, and listed what is in /small under /big as well.
    misplaced = [([2, [index]], {"Inline": b"s"}) for index in range(3)]
    second = {"Ref": ["BBBBBBBBBBBBBBBBBBBG", 0, 4]}
    references = [misplaced[0], ([2, [0, 0]], second), *misplaced[1:], *small_refs[:2]]
    write(root / f"manifests/{MANIFESTS[1]}", pack([0, {}, Map(*references)]))
    return root


def alpha_15(root: Path) -> Path:
    """A header; wrapped binary ids; four fields for each manifest file; manifests with an id."""
    write_refs(root)

    def header(file_type: int) -> bytes:
        return MAGIC + b"ic-0.1.0-alpha.12".ljust(24) + bytes((1, file_type, 1))

    def wrap(one: ObjectId | bytes) -> list[object]:
        return [bytes(one), []]

    def put(path: str, file_type: int, value: object) -> int:
        data = header(file_type) + zstandard.compress(pack(value))
        write(root / path, data)
        return len(data)

    big, small = b"node-big", b"node-sml"
    chunks = [b"A" * 12, b"B" * 12]
    for chunk in chunks:
        write(root / f"chunks/{ObjectId(chunk)}", b"four")
    files: list[list[object]] = []
    for number, manifest in enumerate(MANIFESTS):
        content = Map(
            (wrap(big), Map(([0, 0], {"Ref": [wrap(chunks[number]), 0, 4]}))),
            (wrap(small), Map(*(([index], {"Inline": b"s"}) for index in range(3 - number)))),
        )
        size = put(f"manifests/{manifest}", MANIFEST, [1, {}, wrap(manifest), content])
        files.append([wrap(manifest), 1, size, 4 - number])
    commits = [[wrap(NAMES[n]), TIMES[n], MESSAGES[n]] for n in range(3)]
    for number, name in enumerate(NAMES):
        nodes: dict[str, object] = {}
        if number:
            manifest = MANIFESTS[number - 1]
            arrays = (
                ("/big", big, array([4, 4], [2, 2], "int8", {"Int8": 0}), [[0, 0], [1, 1]]),
                ("/small", small, array([3], [1], "int8", {"Int8": 0}), [[0], [4 - number]]),
            )
            nodes = {"/": [wrap(b"root-id!"), "/", {"Inline": {}}, "Group"]}
            for path, node_id, metadata, extents in arrays:
                data = {"Array": [metadata, [[wrap(manifest), extents]]]}
                nodes[path] = [wrap(node_id), path, {"Inline": {}}, data]
        put(
            f"snapshots/{name}",
            SNAPSHOT,
            [
                *([files[number - 1]] if number else [], [], number, number),
                *(commits[:number][::-1], commits[number], TIMES[number], {}, nodes),
            ],
        )
    new = [wrap(big), wrap(small)]
    updated = Map((wrap(big), [[0, 0]]), (wrap(small), [[0], [1], [2]]))
    put(
        f"transactions/{NAMES[1]}",
        TRANSACTION_LOG,
        [1, [wrap(b"root-id!")], new, [], [], [], [], updated],
    )
    changed = Map((wrap(big), [[0, 0]]), (wrap(small), [[2]]))
    put(f"transactions/{NAMES[2]}", TRANSACTION_LOG, [1, [], [], [], [], [], [], changed])
    return root


@pytest.fixture(params=[alpha_4, alpha_15], ids=["alpha.4", "alpha.15"])
def legacy(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    root: Path = request.param(tmp_path / "repository")
    return root


def read(icectl: Icectl, where: Path, *arguments: str) -> Any:
    done = icectl(*arguments, "--json", "-r", str(where))
    assert done.code == 0, done.err
    assert done.err == ""
    return done.document


def test_it_is_sound(icectl: Icectl, legacy: Path) -> None:
    document = read(icectl, legacy, "validate", "--level", "data", "--decode")
    assert document["ok"] is True
    assert document["findings"] == []
    checked = document["checked"]
    assert (checked["snapshots"], checked["manifests"]) == (3, 2)
    assert (checked["chunk_refs"], checked["chunks"]) == (7, 2)


def test_the_history_begins_with_the_first_snapshot(icectl: Icectl, legacy: Path) -> None:
    snapshots = read(icectl, legacy, "log")["snapshots"]
    assert [one["message"] for one in snapshots] == MESSAGES[::-1]
    assert [one["id"] for one in snapshots] == [str(name) for name in NAMES[::-1]]
    assert snapshots[-1]["parent_id"] is None
    first = read(icectl, legacy, "show", str(NAMES[0]))["snapshot"]
    assert (first["message"], first["num_arrays"]) == (MESSAGES[0], 0)


def test_content_and_statistics(icectl: Icectl, legacy: Path) -> None:
    nodes = read(icectl, legacy, "ls")["nodes"]
    assert [node["path"] for node in nodes] == ["/", "/big", "/small"]
    totals = read(icectl, legacy, "stats")
    assert (totals["native_bytes"], totals["inlined_bytes"]) == (8, 5)
    assert totals["num_chunks"] == 7
    assert read(icectl, legacy, "show")["snapshot"]["num_arrays"] == 2


def test_a_comparison_sees_what_the_readers_saw(icectl: Icectl, legacy: Path) -> None:
    done = icectl("diff", "main~1", "main", "--chunks", "--json", "-r", str(legacy))
    assert done.code == 0, done.err
    chunks = {array["path"]: array for array in done.document["updated_chunks"]}
    assert chunks["/big"]["num_overwritten"] == 1
    assert chunks["/small"]["num_deleted"] == 1


def test_every_file_can_be_inspected(icectl: Icectl, legacy: Path) -> None:
    for file in legacy.glob("[smt]*/*"):
        done = icectl("inspect-file", str(file), "--json")
        assert done.code == 0, (file, done.err)
        assert done.document["kind"] == file.parent.name[:-1].replace(
            "transaction", "transaction_log"
        )


def test_damage_is_still_found(icectl: Icectl, legacy: Path) -> None:
    (legacy / f"snapshots/{NAMES[1]}").unlink()
    done = icectl("validate", "--json", "-r", str(legacy))
    assert done.code == 3
    assert {finding["code"] for finding in done.document["findings"]} >= {"ICE0101"}


def test_a_damaged_log_is_found(icectl: Icectl, tmp_path: Path) -> None:
    root = alpha_15(tmp_path / "repository")
    log = root / f"transactions/{NAMES[2]}"
    log.write_bytes(log.read_bytes()[:-3])
    done = icectl("validate", "--json", "-r", str(root))
    assert done.code == 3
    assert [one["code"] for one in done.document["findings"]] == ["ICE0202"]
