"""The JSON diff of `zarr.json`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from icectl.model.ids import NodeId
from icectl.model.snapshot import GroupNodeData, NodeSnapshot
from icectl.model.values import ABSENT
from icectl.ops.diff.nodes import compare_metadata


def node(user_data: bytes) -> NodeSnapshot:
    return NodeSnapshot(NodeId(bytes(8)), "/x", user_data, GroupNodeData())


def changes(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    found = compare_metadata(node(json.dumps(before).encode()), node(json.dumps(after).encode()))
    return [(change.pointer, change.before, change.after) for change in found.changes]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"shape": [1, 2]}, {"shape": [1, 3]}, [("/shape", [1, 2], [1, 3])]),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, [("/a/b", 1, ABSENT), ("/a/c", ABSENT, 1)]),
        ({"a": None}, {}, [("/a", None, ABSENT)]),
        ({"a": 1}, {"a": True}, [("/a", 1, True)]),
        ({"a": 1}, {"a": 1.0}, [("/a", 1, 1.0)]),
        ({"a": float("nan")}, {"a": float("nan")}, []),
        ({"x/y": {"~": 1}}, {"x/y": {"~": 2}}, [("/x~1y/~0", 1, 2)]),
        (
            {"codecs": [{"name": "bytes"}, {"name": "zstd", "level": 1}]},
            {"codecs": [{"name": "bytes"}, {"name": "zstd", "level": 3}]},
            [("/codecs/1/level", 1, 3)],
        ),
        ({"codecs": [{}]}, {"codecs": [{}, {}]}, [("/codecs", [{}], [{}, {}])]),
        ({"a": []}, {"a": {}}, [("/a", [], {})]),
        (1, 2, [("", 1, 2)]),
    ],
)
def test_changes(before: Any, after: Any, expected: list[tuple[str, Any, Any]]) -> None:
    assert changes(before, after) == expected


@pytest.mark.parametrize("broken", [b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_one_value(broken: bytes) -> None:
    (change,) = compare_metadata(node(b"{}"), node(broken)).changes
    assert (change.pointer, change.before) == ("", {})
    assert isinstance(change.after, str)
