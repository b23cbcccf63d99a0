"""A repository as the early specifications describe it: no release wrote one.

One-letter directories, ids of 16 bytes, structures by name, numbered nodes. Two branches give the
same number to different nodes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from icectl.format.envelope import MAGIC
from icectl.model.ids import ObjectId
from tests.format.legacy_files import Map, pack

MESSAGES = ["Repository initialized", "add t", "add y", "add x"]
T = np.arange(16, dtype="int8").reshape(4, 4)
X = np.array([7, -300, 300], "int16")
Y = np.array([5, 6, 7], "int8")
SCALAR = np.array(42, "int8")
EMPTY = np.zeros((0, 3), "int8")
VIRTUAL = np.arange(1, 5, dtype="int8")
ATTRIBUTES = {"units": "K", "deep": {"list": [1, None, "é"]}}


def number_id(number: int) -> list[int]:
    return [number] * 16


def name_of(id_: list[int]) -> str:
    return str(ObjectId(bytes(id_)))


def array_metadata(values: np.ndarray[Any, Any], chunks: list[int]) -> dict[str, Any]:
    return {
        "shape": list(values.shape),
        "data_type": str(values.dtype),
        "chunk_shape": chunks,
        "chunk_key_encoding": "Slash",
        "fill_value": {"Int8" if values.dtype == "int8" else "Int16": 0},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "storage_transformers": None,
        "dimension_names": None,
    }


class DraftWriter:
    def __init__(self, root: Path, *, header: bool) -> None:
        self.root = root
        self.header = header

    def write(self, path: str, data: bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def put(self, path: str, kind: int, value: object) -> None:
        data = pack(value)
        if self.header:
            data = MAGIC + b"draft".ljust(12) + bytes((1, kind, 1)) + zstandard.compress(data)
        self.write(path, data)

    def ref(self, path: str, commit: int) -> None:
        document = {"snapshot": number_id(commit), "timestamp": f"2024-09-0{commit + 1}T00:00:00Z"}
        self.write(path, json.dumps(document | {"properties": {}}).encode())

    def chunk(self, number: int, data: bytes) -> dict[str, Any]:
        self.write(f"c/{name_of(number_id(number))}", data)
        return {"Ref": {"id": number_id(number), "offset": 0, "length": len(data)}}

    def snapshot(self, commits: list[int], nodes: dict[str, Any]) -> None:
        described = [
            {
                "id": number_id(one),
                "written_at": f"2024-09-0{one + 1}T00:00:00Z",
                "message": MESSAGES[one],
            }
            for one in commits
        ]
        value = {
            "total_parents": len(commits) - 1,
            "short_term_parents": len(commits) - 1,
            "short_term_history": described[:-1],
            "metadata": described[-1],
            "started_at": "2024-09-03T00:00:00Z",
            "properties": {"author": MESSAGES[commits[-1]]},
            "nodes": nodes,
        }
        self.put(f"s/{name_of(number_id(commits[-1]))}", 1, value)


def group(number: int, path: str) -> dict[str, Any]:
    return {"id": number, "path": path, "user_attributes": None, "node_data": "Group"}


def array(
    number: int, path: str, metadata: dict[str, Any], manifest: int, attributes: object
) -> dict[str, Any]:
    where = [{"object_id": number_id(manifest), "flags": [], "extents": []}]
    return {
        "id": number,
        "path": path,
        "user_attributes": attributes,
        "node_data": {"Array": [metadata, where]},
    }


def draft(root: Path, *, header: bool = False, attributes: object = None) -> Path:
    """Main has /t, /y and one array of each special kind, the branch dev /t and /x."""
    to = DraftWriter(root, header=header)
    attributes = {"Inline": ATTRIBUTES} if attributes is None else attributes
    elsewhere = root.with_name(f"{root.name}.virtual")
    elsewhere.mkdir()
    (elsewhere / "data").write_bytes(b"head" + VIRTUAL.tobytes() + b"tail")
    location = {"Absolute": f"file://{elsewhere}/data"}
    virtual_refs = [
        ([6, [0]], {"Virtual": {"location": location, "offset": 4, "length": 2}}),
        ([6, [1]], {"Virtual": [f"file://{elsewhere}/data", 6, 2, {"LastModified": 2**32 - 1}]}),
    ]
    more_refs = [([4, []], {"Inline": SCALAR.tobytes()}), *virtual_refs]
    t_refs = [
        ([2, [row, column]], to.chunk(100 + 2 * row + column, T[rows, columns].tobytes()))
        for row, rows in enumerate((slice(0, 2), slice(2, 4)))
        for column, columns in enumerate((slice(0, 2), slice(2, 4)))
    ]
    x_refs = [([3, [0]], to.chunk(110, X.tobytes()))]
    y_refs = [([3, [index]], {"Inline": [int(Y[index])]}) for index in range(3)]
    for manifest, refs in ((51, t_refs), (52, t_refs + y_refs + more_refs), (53, t_refs + x_refs)):
        to.put(f"m/{name_of(number_id(manifest))}", 2, {"chunks": Map(*refs)})

    def nodes(manifest: int, *more: dict[str, Any]) -> dict[str, Any]:
        t = array(2, "/t", array_metadata(T, [2, 2]), manifest, attributes)
        return {node["path"]: node for node in (group(1, "/"), t, *more)}

    to.snapshot([0], {})
    to.snapshot([0, 1], nodes(51))
    on_main = (
        array(3, "/y", array_metadata(Y, [1]), 52, None),
        array(4, "/scalar", array_metadata(SCALAR, []), 52, None),
        array(5, "/empty", array_metadata(EMPTY, [1, 1]), 52, None),
        array(6, "/virtual", array_metadata(VIRTUAL, [2]), 52, None),
    )
    to.snapshot([0, 1, 2], nodes(52, *on_main))
    to.snapshot([0, 1, 3], nodes(53, array(3, "/x", array_metadata(X, [3]), 53, None)))
    for number, commit in enumerate((0, 1, 2)):
        to.ref(f"r/main/ZZZZZZZ{'ZYX'[number]}.json", commit)
    for number, commit in enumerate((1, 3)):
        to.ref(f"r/dev/ZZZZZZZ{'ZY'[number]}.json", commit)
    to.ref("r/v1.json", 1)
    return root
