"""Large arrays that differ in a few chunks: the right chunks, and the memory it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.harness import cpu, icectl, run
from tests.diff.facts import by_content, by_logs, open_ours, rows
from tests.official import built, changed_native_refs, changed_virtual_refs

BUILDERS = [changed_native_refs, changed_virtual_refs]


@pytest.mark.parametrize("builder", BUILDERS)
def test_finds_the_changed_chunks(
    builder: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neighbours share a location here, and the dictionary of the locations is another one."""
    directory = built(tmp_path_factory, builder, 20_000, 40)
    ours = open_ours(directory)
    expected = {(index,) for index in range(0, 20_000, 500)}
    for _, chunks in (by_logs(ours, "before", "main"), by_content(ours, "side", "main")):
        (changes,) = chunks
        assert rows(changes.overwritten) == expected
        assert changes.num_chunks == 40


@pytest.mark.slow
@pytest.mark.parametrize("builder", BUILDERS)
def test_a_million_references_in_less_than_a_gibibyte(
    builder: Callable[..., Any], tmp_path: Path
) -> None:
    builder(tmp_path / "repo", 1_000_000, 1_000)
    for from_ in ("before", "side"):
        measured = run(cpu(icectl("diff", from_, "main", "--chunks", "-r", tmp_path / "repo")))
        assert measured.megabytes < 1024
