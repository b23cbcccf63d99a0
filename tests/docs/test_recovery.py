"""Every accident of icectl-recovery(7) happens to a repository, and the page's commands help."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from icectl.cli import main
from icectl.format.snapshot import decode_snapshot
from icectl.model.ids import ChunkId
from icectl.model.manifest import RefKind
from icectl.model.snapshot import ArrayNodeData
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from tests.docs.demo_repository import environment
from tests.docs.man_pages import MANUAL
from tests.docs.readme import blocks
from tests.patience import PATIENCE_SECONDS

PAGE = (MANUAL / "icectl-recovery.7.md").read_text(encoding="utf-8")
NOT_ACCIDENTS = ("DESCRIPTION", "WHAT REPAIR LEAVES", "SPEC VERSION 1", "SEE ALSO")


def ancestor(where: Path, count: int) -> Path:
    repository = open_repository(LocalStorage(where))
    history = [info.id for info in repository.ancestry(repository.branches()["main"])]
    return where / "snapshots" / str(history[count])


def manifest(where: Path) -> Path:
    """One that the tip of main uses."""
    for node in decode_snapshot(ancestor(where, 0).read_bytes()).nodes:
        if isinstance(node.node_data, ArrayNodeData) and node.node_data.manifests:
            return where / "manifests" / str(node.node_data.manifests[-1].object_id)
    raise AssertionError("main has no chunks")


def log_of(where: Path, count: int) -> Path:
    return where / "transactions" / ancestor(where, count).name


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def lose_chunk(where: Path) -> None:
    repository = open_repository(LocalStorage(where))
    for node in decode_snapshot(ancestor(where, 0).read_bytes()).nodes:
        data = node.node_data
        for ref in data.manifests if isinstance(data, ArrayNodeData) else ():
            for array in repository.read_manifest(ref.object_id).arrays:
                native = (array.refs.kind == RefKind.NATIVE).nonzero()[0]
                if len(native):
                    name = ChunkId(array.refs.chunk_id[native[0]].tobytes())
                    (where / "chunks" / str(name)).unlink()
                    return
    raise AssertionError("main has no native chunks")


def put_back_old_repo(where: Path) -> None:
    shutil.copy(sorted((where / "overwritten").iterdir())[3], where / "repo")


def move(where: Path) -> None:
    (where.parent / "archive").mkdir()
    where.rename(where.parent / "archive" / "weather")


def copy_partially(where: Path) -> None:
    for kind in ("snapshots", "transactions", "manifests", "chunks"):
        for path in sorted((where / kind).iterdir())[::3]:
            if path.name != "1CECHNKREP0F1RSTCMT0":
                path.unlink()


ACCIDENTS: dict[str, Callable[[Path], object]] = {
    "A DELETED MANIFEST": lambda where: manifest(where).unlink(),
    "A TRUNCATED SNAPSHOT": lambda where: truncate(ancestor(where, 1)),
    "A LOST CHUNK": lose_chunk,
    "AN OLD REPO FILE PUT BACK": put_back_old_repo,
    "AN EMPTY REPO FILE": lambda where: (where / "repo").write_bytes(b""),
    "A DELETED REPO FILE": lambda where: (where / "repo").unlink(),
    "THE WRONG FILE UNDER AN ID": lambda where: shutil.copy(log_of(where, 1), log_of(where, 0)),
    "A MOVED PREFIX": move,
    "A PARTIAL COPY": copy_partially,
    "A MISSING LOG": lambda where: log_of(where, 0).unlink(),
}


def sections() -> dict[str, list[str]]:
    """The blocks of commands below each heading."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    found = dict(zip(parts[::2], parts[1::2], strict=True))
    return {title: list(blocks(text, "sh")) for title, text in found.items()}


def test_every_accident_happens() -> None:
    assert [title for title in sections() if title not in NOT_ACCIDENTS] == list(ACCIDENTS)
    assert all(sections()[title] for title in ACCIDENTS)


CASES = [
    pytest.param(title, block, id=f"{title.lower()}-{number}")
    for title in ACCIDENTS
    for number, block in enumerate(sections()[title])
]


@pytest.mark.parametrize(("title", "block"), CASES)
def test_the_commands_help(title: str, block: str, demo: Path, tmp_path: Path) -> None:
    shutil.copytree(demo, tmp_path / "mirror")
    ACCIDENTS[title](demo)
    variables = {**environment(tmp_path), "ICECTL_REPO": "weather"}
    variables.pop("ICECTL_NOW")

    def is_valid(where: Path) -> bool:
        words = ["validate", "--level", "chunks", "--quiet", "-r", str(where)]
        return main.run(words, variables) == 0

    if title != "A MOVED PREFIX":
        assert not is_valid(demo)
    done = subprocess.run(
        ["bash", "-c", block],
        cwd=tmp_path,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "error:" not in done.stderr
    assert is_valid(tmp_path / "archive" / "weather" if title == "A MOVED PREFIX" else demo)
