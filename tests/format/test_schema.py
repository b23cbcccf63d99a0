"""The Python schemas say what `fbs/` says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from icectl.format import kinds, schema
from icectl.format.reader import Table

FBS = Path(__file__).parents[2] / "fbs"
SCALARS = {"uint8": "B", "uint16": "H", "uint32": "I", "int32": "i", "uint64": "Q", "bool": "?"}
# Demanded by the specification's text without the attribute.
DEMANDED = {
    ("MoveOperation", "from"),
    ("MoveOperation", "to"),
    ("MoveOperation", "node_id"),
    ("ManifestFileInfoV2", "id"),
}
FIELD = re.compile(r"^\s*(\w+)\s*:\s*([\w\[\]]+)\s*(?:=\s*(\d+))?\s*(\(required\))?;")


def parse_tables(text: str) -> dict[str, list[tuple[str, str, int, bool]]]:
    text = re.sub(r"//.*", "", text)
    tables = {}
    for name, body in re.findall(r"table\s+(\w+)\s*\{(.*?)\}", text, re.S):
        rows = [FIELD.match(line) for line in body.splitlines() if line.strip()]
        assert all(rows), f"unread line in {name}"
        tables[name] = [(row[1], row[2], int(row[3] or 0), bool(row[4])) for row in rows if row]
    return tables


def all_fbs_tables() -> dict[str, list[tuple[str, str, int, bool]]]:
    tables: dict[str, list[tuple[str, str, int, bool]]] = {}
    for path in sorted(FBS.glob("*.fbs")):
        tables |= parse_tables(path.read_text())
    return tables


def all_schema_tables() -> dict[str, Table]:
    found = [value for value in vars(schema).values() if isinstance(value, Table)]
    return {table.name: table for table in [*found, *schema.UPDATE_TYPES]}


ENUMS = {"RepoAvailability": "uint8", "NodeType": "uint8"}
STRUCT_SIZES = {
    "ObjectId12": 12,
    "ObjectId8": 8,
    "DimensionShape": 16,
    "ChunkIndexRange": 8,
    "ManifestFileInfo": 32,
}


def matches(kind: object, declared: str, default: int) -> bool:
    declared = ENUMS.get(declared, declared)
    if declared in SCALARS:
        return (
            isinstance(kind, kinds.Scalar)
            and kind._struct.format == "<" + SCALARS[declared]
            and int(kind.default) == default
        )
    if declared == "string":
        return isinstance(kind, kinds.String)
    if declared == "[string]":
        return isinstance(kind, kinds.Strings)
    if declared == "[uint8]":
        return isinstance(kind, kinds.Bytes)
    if declared in STRUCT_SIZES:
        return isinstance(kind, kinds.Struct) and kind.size == STRUCT_SIZES[declared]
    if declared in ("UpdateType", "NodeData"):
        return isinstance(kind, kinds.Union)
    element = declared.strip("[]")
    if not declared.startswith("["):
        return isinstance(kind, kinds.TableField) and kind.table.name == element
    if element in SCALARS:
        return isinstance(kind, kinds.Scalars) and kind._code == SCALARS[element]
    if element in STRUCT_SIZES:
        return isinstance(kind, kinds.Structs) and kind.element.size == STRUCT_SIZES[element]
    if element in ("ChunkRef", "ChunkIndices"):
        return isinstance(kind, kinds.Span)
    return isinstance(kind, kinds.Tables) and kind.table.name == element


def test_the_same_tables() -> None:
    assert set(all_fbs_tables()) == set(all_schema_tables())


@pytest.mark.parametrize("name", sorted(all_schema_tables()))
def test_the_same_fields(name: str) -> None:
    declared = all_fbs_tables()[name]
    fields = all_schema_tables()[name].fields
    assert [field.name for field in fields] == [row[0] for row in declared]
    for field, (field_name, kind, default, required) in zip(fields, declared, strict=True):
        assert matches(field.kind, kind, default), f"{name}.{field_name}: {kind}"
        assert field.required == (required or (name, field_name) in DEMANDED), field_name


def test_the_same_union_members() -> None:
    text = re.sub(r"//.*", "", (FBS / "repo.fbs").read_text())
    members = re.search(r"union UpdateType \{(.*?)\}", text, re.S)
    assert members is not None
    names = [name.strip() for name in members[1].split(",") if name.strip()]
    assert names == [table.name for table in schema.UPDATE_TYPES]
