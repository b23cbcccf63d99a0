"""Lost chunks have coordinates, and lost files are listed so that a mirror can return them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from icectl.model.ids import INITIAL_SNAPSHOT_ID
from tests.command_line import Icectl
from tests.official import built
from tests.official.histories import commit, create
from tests.validate.damage import Patient, build, copied_with_source

KINDS = ("snapshots", "transactions", "manifests", "chunks")


@pytest.fixture
def where(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied_with_source(built(tmp_path_factory, build, 2), tmp_path / "repo")


def test_coordinates(icectl: Icectl, where: Path) -> None:
    patient = Patient(where)
    patient.chunk_of("/g/native").unlink()
    short = patient.chunk_of("/split")
    short.write_bytes(short.read_bytes()[:-1])
    command = ("validate", "--level", "chunks", "-r", str(where))
    found = {one["path"]: one for one in icectl(*command, "--json").document["findings"]}
    assert found["/g/native"]["chunks"] == [[0, 0]]
    assert found["/split"]["chunks"] == [[0]]
    text = icectl(*command).out
    assert "chunk [0, 0] of /g/native" in text
    assert "chunk [0] of /split" in text


def test_a_moved_array_has_the_path_of_the_version_that_lost_the_chunk(
    icectl: Icectl, tmp_path: Path
) -> None:
    repo = create(tmp_path, 2)
    with commit(repo, "start") as root:
        array = root.create_array("a", shape=(48,), chunks=(16,), dtype="i8", compressors=None)
        array[:16] = 1
    repo.create_branch("dev", repo.lookup_branch("main"))
    chunks = tmp_path / "chunks"
    lost = {}
    for number, branch in ((2, "main"), (1, "dev")):
        session = repo.rearrange_session(branch)
        session.move("/a", f"/{branch}")
        session.commit("move")
        before = {*chunks.iterdir()}
        with commit(repo, "more", branch=branch) as root:
            root[branch][number * 16 : number * 16 + 16] = 1
        (path,) = {*chunks.iterdir()} - before
        path.unlink()
        lost[f"chunks/{path.name}"] = (f"/{branch}", [[number]], [branch])
    done = icectl("validate", "--level", "chunks", "-r", str(tmp_path), "--json")
    found = done.document["findings"]
    assert {one["object"]: (one["path"], one["chunks"], one["branches"]) for one in found} == lost


def test_missing_files_come_back_from_a_mirror(
    icectl: Icectl,
    where: Path,
    tmp_path: Path,
) -> None:
    mirror = shutil.copytree(where, tmp_path / "mirror")
    gone = [max((where / kind).iterdir()) for kind in KINDS]
    for path in gone:
        path.unlink()
    Path(where / "chunks" / min(one.name for one in (where / "chunks").iterdir())).write_bytes(b"")
    missing = tmp_path / "missing"
    command = ("validate", "--level", "chunks", "--missing", str(missing), "-r", str(where))
    assert icectl(*command).code == 3
    paths = missing.read_text().splitlines()
    # What a lost snapshot or manifest refers to is known as soon as it is back.
    assert {str(path.relative_to(where)) for path in gone[:2]} <= set(paths)
    assert paths == sorted(set(paths))
    rounds = 0
    while missing.read_text():
        rounds += 1
        # The format of `rclone --files-from` is that of `tar`.
        fetch = f"tar -C {mirror} -cf - --files-from {missing} | tar -C {where} -xf -"
        subprocess.run(fetch, shell=True, check=True)
        done = icectl(*command)
    assert done.code == 0
    assert rounds <= 3


def test_the_list_is_complete(icectl: Icectl, where: Path, tmp_path: Path) -> None:
    for path in (where / "chunks").iterdir():
        path.unlink()
    missing = tmp_path / "missing"
    done = icectl(
        *("validate", "--level", "chunks", "--max-findings", "2", "--json"),
        *("--missing", str(missing), "-r", str(where)),
    )
    assert len(done.document["findings"]) == 2
    count = done.document["by_code"]["ICE0401"]
    assert count > 2
    assert len(missing.read_text().splitlines()) == count


@pytest.mark.parametrize("kind", ["snapshots", "manifests"])
@pytest.mark.parametrize("damage", ["lost", "damaged"])
def test_needed_files_are_not_called_unreferenced(
    icectl: Icectl, where: Path, kind: str, damage: str
) -> None:
    """Beside an unreadable file nobody knows which objects it needs."""
    garbage = {
        name: where / name / ("0" * 19 + "G") for name in ("snapshots", "manifests", "chunks")
    }
    for path in garbage.values():
        path.write_bytes(b"x")

    def run() -> tuple[list[str], str]:
        document = icectl("validate", "--level", "chunks", "--json", "-r", str(where)).document
        orphans = [one for one in document["findings"] if one["code"] == "ICE0404"]
        notes = [one for one in document["notes"] if "unreferenced" in one]
        return [one["object"] for one in orphans], " ".join(notes)

    assert run() == (["chunks/", "manifests/", "snapshots/"], "")
    for path in [*(where / kind).iterdir()]:
        if path not in garbage.values() and path.name != str(INITIAL_SNAPSHOT_ID):
            path.unlink() if damage == "lost" else path.write_bytes(b"damaged")
            break
    orphans, notes = run()
    decidable = ["manifests/", "snapshots/"] if kind == "manifests" else ["snapshots/"]
    assert orphans == decidable
    assert "chunks/" in notes and ("manifests/" in notes) == (kind == "snapshots")
