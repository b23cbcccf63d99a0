"""The demo: both writers produce the same history, and the tour works everywhere."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.demo import tour
from tests.docs.conftest import Icectl
from tests.docs.demo_repository import NOW, REPOSITORY, environment, write_demo

needs_official = pytest.mark.skipif(
    find_spec("icechunk") is None, reason="the official package is not installed"
)


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """A PATH with nothing in it, and so without Java."""
    (tmp_path / "empty").mkdir()
    return {"PATH": str(tmp_path / "empty")}


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def story(icectl: Icectl, repository: Path) -> dict[str, Any]:
    """The content of the repository, without ids."""

    def document(*words: str) -> Any:
        done = icectl(*words, "--json", "-r", str(repository))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    diff = document("diff", "main~10", "main", "--chunks")
    return {
        "log": [
            (s["message"], s["flushed_at"][:16], s["metadata"], s["branches"], s["tags"])
            for s in document("log", "--all")["snapshots"][:-1]
        ],
        "nodes": [
            (n["path"], n["type"], n.get("shape"), n.get("num_chunks"), n.get("dimension_names"))
            for n in document("ls")["nodes"]
        ],
        "ops": [
            (u["kind"], u["updated_at"][:16], u.get("name"), u.get("branch"))
            for u in document("ops-log")["updates"]
            if u["kind"] != "config_changed"
        ],
        "diff": {key: value for key, value in diff.items() if key not in ("from", "to")},
        "garbage": {
            key: value
            for key, value in document("gc", "--older-than", "7d", "--dry-run").items()
            if (key.endswith("_deleted") and key != "bytes_deleted") or key == "kept"
        },
        "stats": document("stats")["arrays"],
    }


def test_our_writer_writes_the_same_bytes_each_time(demo_original: Path, tmp_path: Path) -> None:
    """README depends on these; only the names of backups are random."""

    def contents(repository: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(repository)): path.read_bytes()
            for kind in ("snapshots", "transactions", "manifests", "chunks")
            for path in (repository / kind).iterdir()
        }

    write_demo(tmp_path)
    assert contents(tmp_path / REPOSITORY) == contents(demo_original)


@needs_official
def test_both_writers_write_the_same_story(icectl: Icectl, tmp_path: Path) -> None:
    stories = {}
    for writer in ("icechunk", "icectl"):
        done = icectl("demo", writer, "--writer", writer, "--no-tour")
        assert done.returncode == 0, done.stderr
        stories[writer] = story(icectl, tmp_path / writer / "weather")
    for part, told in stories["icechunk"].items():
        assert stories["icectl"][part] == told, part


@needs_official
def test_official_package_reads_what_icectl_wrote(icectl: Icectl, tmp_path: Path) -> None:
    import icechunk
    import zarr

    found = {}
    for writer in ("icechunk", "icectl"):
        icectl("demo", writer, "--writer", writer, "--no-tour")
        storage = icechunk.local_filesystem_storage(str(tmp_path / writer / "weather"))
        repository = icechunk.Repository.open(storage)
        for branch in ("main", "reprocessing"):
            root = zarr.open_group(repository.readonly_session(branch).store, mode="r")
            arrays = {path: node for path, node in root.members(None) if hasattr(node, "shape")}
            found[writer, branch] = {
                path: (array[...].tobytes(), dict(array.attrs), array.dtype)
                for path, array in arrays.items()
            }
    for branch in ("main", "reprocessing"):
        assert len(found["icechunk", branch]) == 5
        assert found["icechunk", branch] == found["icectl", branch]


@pytest.mark.parametrize("writer", ["icectl", pytest.param("icechunk", marks=needs_official)])
def test_the_tour_without_java(
    writer: str, icectl: Icectl, tmp_path: Path, without_java: dict[str, str]
) -> None:
    before = names(tmp_path)
    done = icectl("demo", "here", "--writer", writer, **without_java)
    assert done.returncode == 0, done.stderr
    for line in (
        "log --graph --all --oneline",
        "ls --tree",
        "diff",
        "ops-log",
        "validate",
        "stats",
        "expire",
        "gc --older-than 7d --dry-run",
        "gc --older-than 7d --yes",
    ):
        assert f"\n$ icectl {line}" in done.stdout
    assert "skipped: Java is not installed" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert names(tmp_path) - before == {"here"}
    assert names(tmp_path / "here") == {"weather", "report.html"}
    assert f"the report is in {Path('here', 'report.html')}" in done.stderr


@pytest.mark.slow
@pytest.mark.spark
def test_the_tour_with_spark(icectl: Icectl, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed")
    done = icectl("demo", "here", "--json", SPARK_LOCAL_IP="127.0.0.1")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["left_out"] is None
    local, spark = (
        step["output"]
        for step in document["steps"]
        if "gc --older-than 7d --yes" in step["command"]
    )
    assert local == spark

    def files(name: str) -> set[str]:
        root = tmp_path / "here" / name
        kinds = ("snapshots", "transactions", "manifests", "chunks")
        return {str(path.relative_to(root)) for kind in kinds for path in (root / kind).iterdir()}

    assert files("weather") == files("weather-for-spark")


def test_json_holds_the_whole_tour(icectl: Icectl, without_java: dict[str, str]) -> None:
    done = icectl("demo", "here", "--json", "--quiet", **without_java)
    document = json.loads(done.stdout)
    assert done.stderr == ""
    assert document["location"] == "here/weather"
    assert document["report"] == "here/report.html"
    assert all(step["exit_code"] == 0 and step["output"] for step in document["steps"])


def test_a_directory_that_holds_something_is_refused(icectl: Icectl, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    done = icectl("demo", "mine")
    assert done.returncode == 16
    assert "mine is not empty" in done.stderr
    assert names(tmp_path / "mine") == {"thesis.txt"}


def test_a_file_in_its_place_is_reported(icectl: Icectl, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = icectl("demo", "file")
    assert done.returncode == 2
    assert "file cannot be used: Not a directory" in done.stderr


@pytest.mark.parametrize("place", ["s3://bucket/prefix", "file:///tmp/x", ""])
def test_only_a_local_directory_is_accepted(icectl: Icectl, tmp_path: Path, place: str) -> None:
    before = names(tmp_path)
    done = icectl("demo", place, "--no-tour", "--writer", "icectl")
    assert done.returncode == 2
    assert "the demo needs a local directory" in done.stderr
    assert names(tmp_path) == before


def test_a_tour_that_fails_ends_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tour, "TOUR", (("a ref that is not there", "show nowhere"),))
    words = ["demo", str(tmp_path / "here"), "--writer", "icectl"]
    assert run(words, environment(tmp_path)) == 1
    printed = capfd.readouterr()
    assert "there is no branch, tag or snapshot nowhere" in printed.err
    assert "icectl show nowhere failed with exit code 12" in printed.err
    assert "icectl gc" not in printed.out


def test_the_present_can_be_fixed(icectl: Icectl, tmp_path: Path) -> None:
    icectl("demo", "here", "--writer", "icectl", "--no-tour")
    done = icectl("log", "-n", "1", "--json", "-r", "here/weather")
    (newest,) = json.loads(done.stdout)["snapshots"]
    assert newest["flushed_at"] < NOW
    assert newest["flushed_at"].startswith("2026-03-01")
