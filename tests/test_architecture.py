"""The layers of the package: who may import whom, at run time, and at what price.

Reads the source; imports nothing of the package, so that a broken module fails here too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "icectl"
MODULES = sorted(PACKAGE.rglob("*.py"))

BELOW = {
    "errors": set(),
    "records": set(),
    "limits": {"errors"},
    "model": {"errors", "records"},
    "format": {"errors", "records", "limits", "model"},
    "storage": {"errors", "records", "limits", "model"},
    "repository": {"errors", "records", "limits", "model", "format", "storage"},
    "ops": {"errors", "records", "limits", "model", "format", "storage", "repository"},
    "spark": {"errors", "records", "limits", "model", "format", "storage", "repository", "ops"},
    "render": {"errors", "records", "limits", "model", "ops"},
    "cli": {
        *("errors", "records", "limits", "model", "format", "storage", "repository", "ops"),
        *("spark", "render"),
    },
}
"""What each layer may import besides itself and the package's version."""

HEAVY = {
    "aiobotocore", "aiohttp", "botocore", "dataclasses", "fsspec", "gcsfs", "google", "inspect",
    "msgpack", "numpy", "pyarrow", "pyspark", "rich", "s3fs", "typer", "yaml",
}  # fmt: skip
MAY_BE_HEAVY = {
    "inspect": {"cli/catalogue.py"},
    "numpy": {"format", "ops", "spark"},
    "msgpack": {"format/values.py", "format/legacy"},
    "s3fs": {"storage/s3.py"},
    "gcsfs": {"storage/gcs.py"},
    "fsspec": {"storage/object_store.py", "storage/s3.py", "storage/gcs.py"},
    "pyspark": {"spark"},
    "pyarrow": {"spark", "ops/tables"},
}
"""Where an import at the top of a module is right, since nobody imports it who needs less."""

LONGEST_MODULE = 450


@dataclass(frozen=True)
class Import:
    module: str
    names: tuple[str, ...]
    line: int
    type_checking: bool
    top_level: bool


def imports_of(tree: ast.AST) -> Iterator[Import]:
    yield from _walk(tree, type_checking=False, top_level=True)


def _walk(node: ast.AST, *, type_checking: bool, top_level: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, (), child.lineno, type_checking, top_level)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"relative import at line {child.lineno}"
            names = tuple(alias.name for alias in child.names)
            yield Import(child.module or "", names, child.lineno, type_checking, top_level)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for statement in child.body:
                yield from _walk(
                    ast.Module([statement], []), type_checking=True, top_level=top_level
                )
            for statement in child.orelse:
                yield from _walk(
                    ast.Module([statement], []), type_checking=type_checking, top_level=top_level
                )
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _walk(child, type_checking=type_checking, top_level=top_level and not inside)


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def layers_named(found: Import) -> list[str]:
    """The layers that an import of the package itself reaches."""
    parts = found.module.split(".")
    if parts[0] != "icectl":
        return []
    if len(parts) > 1:
        return [parts[1]]
    return [name for name in found.names if name != "__version__"]


def wrong_arrows(layer: str, tree: ast.AST) -> list[str]:
    """Imports for types alone bind nobody at run time, but the layers hold for them too."""
    return [
        f"line {found.line}: {layer} imports {named}"
        for found in imports_of(tree)
        for named in layers_named(found)
        if named not in BELOW[layer] | {layer}
    ]


def reads_environment(tree: ast.AST) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in ("environ", "environb", "getenv", "getenvb")
        and ast.unparse(node.value) == "os"
    ] + [
        found.line
        for found in imports_of(tree)
        if found.module == "os" and {"environ", "getenv"} & set(found.names)
    ]


def heavy_imports(path: str, tree: ast.AST) -> list[str]:
    return [
        f"line {found.line}: {found.module}"
        for found in imports_of(tree)
        if found.top_level and not found.type_checking
        for library in [found.module.split(".")[0]]
        if library in HEAVY
        and not any(path.startswith(place) for place in MAY_BE_HEAVY.get(library, ()))
    ]


@pytest.fixture(params=MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def module(request: pytest.FixtureRequest) -> tuple[Path, ast.Module]:
    path: Path = request.param
    return path, ast.parse(path.read_text(encoding="utf-8"))


def test_arrows_point_down(module: tuple[Path, ast.Module]) -> None:
    path, tree = module
    if path == PACKAGE / "__init__.py":
        assert not list(imports_of(tree))
    else:
        assert wrong_arrows(layer_of(path), tree) == []


def test_only_the_command_line_reads_the_environment(module: tuple[Path, ast.Module]) -> None:
    path, tree = module
    if layer_of(path) != "cli":
        assert reads_environment(tree) == []


def test_heavy_libraries_are_imported_by_what_needs_them(module: tuple[Path, ast.Module]) -> None:
    path, tree = module
    assert heavy_imports(str(path.relative_to(PACKAGE)), tree) == []


def test_modules_stay_short(module: tuple[Path, ast.Module]) -> None:
    path, _ = module
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_MODULE


def test_no_module_is_a_drawer(module: tuple[Path, ast.Module]) -> None:
    path, _ = module
    assert not {"utils", "helpers", "common", "misc"} & {path.stem, path.parent.name}


@pytest.mark.parametrize("path", sorted((PACKAGE / "model").glob("*.py")), ids=lambda p: p.name)
def test_model_is_standard_library_only(path: Path) -> None:
    used = {
        found.module.split(".")[0]
        for found in imports_of(ast.parse(path.read_text(encoding="utf-8")))
        if not found.type_checking
    }
    assert used <= sys.stdlib_module_names | {"icectl"}


def test_every_layer_has_its_place() -> None:
    assert {layer_of(path) for path in MODULES} - {"__init__"} <= BELOW.keys()


def test_the_checks_can_fail() -> None:
    """Each check finds a planted fault, also inside functions and TYPE_CHECKING blocks."""
    planted = ast.parse(
        "from typing import TYPE_CHECKING\n"
        "import os, numpy\n"
        "from icectl import ops\n"
        "if TYPE_CHECKING:\n    from icectl.cli.main import main\n    import typer\n"
        "def f():\n    import icectl.storage.open\n    import rich\n    return os.environ\n"
    )
    assert len(wrong_arrows("format", planted)) == 3
    assert wrong_arrows("cli", planted) == []
    assert heavy_imports("model/x.py", planted) == ["line 2: numpy"]
    assert heavy_imports("format/x.py", planted) == []
    assert reads_environment(planted) == [10]
