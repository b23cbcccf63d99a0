"""What the package imports, what it declares, and what development pins: all the same."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[2]
PINNED = PROJECT / "requirements-dev.txt"
DISTRIBUTIONS = {
    "yaml": "pyyaml",
    "arro3": "arro3-core",
    "google": "google-auth",
    "vl_convert": "vl-convert-python",
    "prometheus_client": "prometheus-client",
}
"""Where the name to import is not the name to install."""

with (PROJECT / "pyproject.toml").open("rb") as file:
    METADATA = tomllib.load(file)["project"]


def requirements(*extras: str) -> list[Requirement]:
    optional = METADATA["optional-dependencies"]
    texts = [*METADATA["dependencies"], *(text for extra in extras for text in optional[extra])]
    return [Requirement(text) for text in texts]


def imported_libraries(tree: ast.AST) -> Iterator[str]:
    """The distributions of all imports, also of those inside functions and for types alone."""
    for node in ast.walk(tree):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        for module in modules:
            library = module.partition(".")[0]
            if library not in sys.stdlib_module_names and library != "icectl":
                yield DISTRIBUTIONS.get(library, library)


def test_what_is_imported_is_declared_and_the_other_way_round() -> None:
    imported = {
        library
        for path in (PROJECT / "icectl").rglob("*.py")
        for library in imported_libraries(ast.parse(path.read_text(encoding="utf-8")))
    }
    optional = METADATA["optional-dependencies"].keys() - {"test"}
    declared = {requirement.name for requirement in requirements(*optional)}
    assert imported - declared == set()
    assert declared - imported == set()


def test_the_comparison_sees_every_import() -> None:
    planted = ast.parse(
        "import os, numpy.typing\ndef f():\n    from yaml.nodes import Node\n    import icectl.cli\n"
    )
    assert list(imported_libraries(planted)) == ["numpy", "pyyaml"]


def pins() -> Iterator[tuple[Requirement, list[str]]]:
    """Each pinned requirement with its hashes."""
    text = PINNED.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            requirement, *hashes = re.split(r"\s+--hash=", line)
            yield Requirement(requirement), hashes


def test_every_pin_has_hashes_and_none_an_address() -> None:
    found = list(pins())
    assert len(found) > 50
    for requirement, hashes in found:
        (exact,) = requirement.specifier
        assert exact.operator == "==" and requirement.url is None
        assert hashes and all(re.fullmatch("sha256:[0-9a-f]{64}", one.strip()) for one in hashes)
    assert not re.search(r"://|--(extra-)?index|--find-links", PINNED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_pins_are_what_the_project_asks_for(python: str) -> None:
    """Whatever extra of the project is needed to develop it, on each Python."""
    environment = {"python_version": python, "python_full_version": f"{python}.1"}
    versions = {
        requirement.name: next(iter(requirement.specifier)).version
        for requirement, _ in pins()
        if requirement.marker is None or requirement.marker.evaluate(environment)
    }
    for wanted in requirements("spark", "test"):
        if wanted.marker is None or wanted.marker.evaluate(environment):
            assert wanted.name in versions, wanted.name
            assert wanted.specifier.contains(versions[wanted.name]), wanted
