"""The repository that most tests of undo and restore begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gc.place import Place
from tests.official.histories import commit


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    """Five commits, a tag and a branch on old ones, metadata."""
    place = Place(tmp_path / "repo", capsys)
    place.commit(0, 1)
    repo = place.official()
    repo.create_tag("v1", repo.lookup_branch("main"))
    repo.create_branch("side", repo.lookup_branch("main"))
    with commit(repo, "on the side", branch="side") as root:
        root.attrs["side"] = True
    place.commit(2, 3, 4)
    place.official().update_metadata({"owner": "us"})
    return place
