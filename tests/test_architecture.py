"""What import-linter (`make lint`) cannot check.

Only the command line reads the environment; storages read the standard variables of the clouds, in
one place. No test module imports another.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "icectl"
CLOUD_VARIABLES = PACKAGE / "storage" / "cloud_variables.py"
MODULES = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if path.parts[len(PACKAGE.parts)] != "cli" and path != CLOUD_VARIABLES
)


def reads_environment(tree: ast.AST) -> list[int]:
    """The lines that read `os.environ` or `os.getenv`."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in ("environ", "getenv")
        and ast.unparse(node.value) == "os"
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_command_line_reads_the_environment(path: Path) -> None:
    assert reads_environment(ast.parse(path.read_text(encoding="utf-8"))) == []


def test_the_check_can_fail() -> None:
    assert reads_environment(ast.parse("import os\nx = os.environ['A']\n")) == [2]


def test_no_test_module_imports_another() -> None:
    tests = Path(__file__).parent
    for path in tests.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
                assert ".test_" not in f".{node.module}", path
