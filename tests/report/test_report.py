"""`icectl report`: the numbers are those of the other commands, and a file is written or none."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.exit_codes import DONE, FINDINGS, USAGE
from icectl.errors import FormatError, RefusedError, UnsupportedError
from tests.command_line import Icectl
from tests.docs.demo_repository import NOW
from tests.gc.repositories import messy_repository
from tests.official import build_zoo, built, copied, ic, linear_history, open_official, zarr
from tests.official.histories import commit, create
from tests.report.pages import (
    ATTACK,
    hostile_repository,
    read_documents,
    repository_of_other_times,
    size_without_data,
)

OLDER_THAN = "2026-02-16"
GC_OLDER_THAN = "2026-02-20"
STATS = ["stats", "--by", "branches", "--by", "tags", "--by", "snapshots", "--by", "growth"]
LOG = ["log", "--all", "--stat"]
MOST_BYTES = 3_000_000


def write(icectl: Icectl, repository: Path, page: Path, *options: str, code: int = DONE) -> str:
    done = icectl("report", "-r", str(repository), "--html", str(page), *options, ICECTL_NOW=NOW)
    assert done.code == code, done.err
    return page.read_text(encoding="utf-8")


def test_documents_are_those_of_the_commands(icectl: Icectl, demo: Path, tmp_path: Path) -> None:
    rules = ("--older-than", OLDER_THAN)
    options = (*rules, "--gc-older-than", GC_OLDER_THAN, "--validate", "chunks")
    page = write(icectl, demo, tmp_path / "page.html", *options)
    found = read_documents(page)

    def document(*words: str) -> Any:
        done = icectl(*words, "-r", str(demo), "--json", ICECTL_NOW=NOW)
        assert done.code == DONE, done.err
        return done.document

    assert found["stats"] == document(*STATS, *rules)
    assert found["log"] == document(*LOG)
    assert found["ops-log"] == document("ops-log")
    assert found["status"] == document("status")
    assert found["expire"] == document("expire", *rules, "--dry-run")
    assert found["gc"] == document("gc", "--older-than", GC_OLDER_THAN, "--dry-run")
    assert found["validate"] == document("validate", "--level", "chunks")
    # The page names the commands.
    for name in ("stats", "log", "ops-log", "expire", "gc", "validate"):
        words = found["report"]["commands"][name].split()[1:]
        assert found[name] == icectl(*words, "-r", str(demo), ICECTL_NOW=NOW).document
    assert size_without_data(page) < MOST_BYTES


@pytest.mark.parametrize("spec_version", [1, 2])
@pytest.mark.parametrize("build", [build_zoo, messy_repository])
def test_other_repositories(
    icectl: Icectl,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    build: Any,
    spec_version: int,
) -> None:
    repository = built(tmp_path_factory, build, spec_version)
    found = read_documents(write(icectl, repository, tmp_path / "page.html"))
    assert found["stats"] == icectl(*STATS, "-r", str(repository), "--json").document
    assert found["log"] == icectl(*LOG, "-r", str(repository), "--json").document
    assert (found["ops-log"] is None) == (spec_version == 1)
    assert found["expire"] is found["gc"] is found["validate"] is None
    order, lanes = found["report"]["order"], found["report"]["lanes"]
    assert sorted(order) == list(range(len(found["log"]["snapshots"])))
    assert len(lanes) == len(order)


def test_an_earlier_state(icectl: Icectl, demo: Path, tmp_path: Path) -> None:
    found = read_documents(write(icectl, demo, tmp_path / "page.html", "--at-op", "@5"))
    assert found["log"] == icectl(*LOG, "-r", str(demo), "--json", "--at-op", "@5").document
    assert found["stats"] == icectl(*STATS, "-r", str(demo), "--json", "--at-op", "@5").document
    assert found["report"]["at_op"] == "@5"


def test_empty_repository(icectl: Icectl, tmp_path: Path) -> None:
    assert icectl("init", str(tmp_path / "repo")).code == DONE
    found = read_documents(write(icectl, tmp_path / "repo", tmp_path / "page.html"))
    assert len(found["log"]["snapshots"]) == 1
    assert found["stats"]["growth"] == []


def test_result(icectl: Icectl, demo: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = icectl("report", "-r", str(demo), "--html", str(page), "--json", ICECTL_NOW=NOW)
    assert done.document == {
        "path": str(page),
        "size_bytes": page.stat().st_size,
        "location": str(demo),
        "sections": ["status", "stats", "log", "ops-log"],
        "ok": None,
    }


def test_standard_output(icectl: Icectl, demo: Path, tmp_path: Path) -> None:
    page = write(icectl, demo, tmp_path / "page.html")
    done = icectl("report", "-r", str(demo), "--html", "-", ICECTL_NOW=NOW)
    assert done.out == page


def test_a_file_is_replaced_when_it_is_complete(icectl: Icectl, demo: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("earlier")
    page.chmod(0o640)
    link = tmp_path / "link.html"
    link.symlink_to(page)
    write(icectl, demo, link)
    assert link.is_symlink()
    assert stat.S_IMODE(page.stat().st_mode) == 0o640
    new = tmp_path / "new.html"
    umask = os.umask(0o027)
    try:
        write(icectl, demo, new)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(new.stat().st_mode) == 0o640
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {
        "page.html",
        "link.html",
        "new.html",
    }


def test_damage_leaves_no_file(
    icectl: Icectl, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    repository = copied(built(tmp_path_factory, linear_history, 8), tmp_path / "repo")
    manifest = next((repository / "manifests").iterdir())
    manifest.write_bytes(manifest.read_bytes()[:-20])
    page = tmp_path / "page.html"
    done = icectl("report", "-r", str(repository), "--html", str(page), "--json")
    assert (done.code, done.error["kind"]) == (FormatError.exit_code, FormatError.kind)
    assert not page.exists()
    page.write_text("earlier")
    assert icectl("report", "-r", str(repository), "--html", str(page)).code == done.code
    assert page.read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["page.html"]


def test_findings(icectl: Icectl, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A missing chunk is a finding, and nothing that the other sections read."""
    repository = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "repo")
    expected = icectl("validate", "-r", str(repository), "--level", "chunks", "--json").document
    for chunk in (repository / "chunks").iterdir():
        chunk.unlink()
    page = tmp_path / "page.html"
    found = read_documents(write(icectl, repository, page, "--validate", "chunks", code=FINDINGS))[
        "validate"
    ]
    assert expected["ok"]
    assert not found["ok"]
    assert found["findings"]


def test_refusals_of_gc_are_refusals_of_the_report(
    icectl: Icectl, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    repository = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "repo")
    assert icectl("status", "set", "read-only", "-r", str(repository)).code == DONE
    page = tmp_path / "page.html"
    words = ("report", "-r", str(repository), "--html", str(page))
    assert icectl(*words, "--gc-older-than", "7d").code == RefusedError.exit_code
    assert not page.exists()
    assert icectl(*words).code == DONE


def test_without_the_charting_library(
    icectl: Icectl, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    page = tmp_path / "page.html"
    for words in (["report", "--html", str(page)], ["stats", "--plot", str(tmp_path / "a.svg")]):
        done = icectl(*words, "-r", str(demo), "--json")
        assert (done.code, done.error["kind"]) == (
            UnsupportedError.exit_code,
            UnsupportedError.kind,
        )
        assert "icectl[report]" in done.error["hint"]
    assert not page.exists()


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--html", "{directory}"],
        ["--html", "{directory}/none/page.html"],
        ["--html", ""],
        ["--html", "-", "--json"],
        ["--html", "{directory}/page.html", "--older-than", "3d", "--policy", "default"],
        ["--html", "{directory}/page.html", "--older-than", "soon"],
        ["--html", "{directory}/page.html", "--gc-older-than", "soon"],
        ["--html", "{directory}/page.html", "--validate", "everything"],
        ["--html", "{directory}/page.html", "--at-op", "@1", "--older-than", "3d"],
        ["--html", "{directory}/page.html", "--at-op", "@1", "--gc-older-than", "3d"],
    ],
)
def test_wrong_calls(icectl: Icectl, demo: Path, tmp_path: Path, options: list[str]) -> None:
    given = [word.format(directory=tmp_path) for word in options]
    assert icectl("report", "-r", str(demo), *given).code == USAGE
    assert [*tmp_path.rglob("*.html")] == []


@pytest.mark.parametrize(
    "words",
    [
        ["report", "--html", "{demo}/repo"],
        ["report", "--html", "{link}"],
        ["stats", "--plot", "{demo}/chunks/chart.svg"],
        ["stats", "--plot", "{link}"],
        ["validate", "--junit", "{demo}/repo"],
    ],
)
def test_a_file_of_the_repository_is_never_replaced(
    icectl: Icectl, demo: Path, tmp_path: Path, words: list[str]
) -> None:
    link = tmp_path / "chart.svg"
    link.symlink_to(demo / "repo")
    before = {path: path.stat().st_mtime_ns for path in demo.rglob("*")}
    given = [word.format(demo=demo, link=link) for word in words]
    assert icectl(*given, "-r", f"file://{demo}").code == USAGE
    assert {path: path.stat().st_mtime_ns for path in demo.rglob("*")} == before


def test_secrets_are_hidden(icectl: Icectl, tmp_path: Path, demo: Path) -> None:
    location = f"file://user:secret-password@localhost{demo}"
    page = tmp_path / "page.html"
    done = icectl("report", "-r", location, "--html", str(page))
    assert "secret-password" not in done.out + done.err
    assert not page.exists() or "secret-password" not in page.read_text()


def test_no_text_of_the_repository_is_markup(icectl: Icectl, tmp_path: Path) -> None:
    repository = hostile_repository(tmp_path / "repo")
    page = write(icectl, repository, tmp_path / "page.html")
    assert page.count("</script>") == page.count("<script")
    assert ATTACK not in page
    assert "onerror" in page  # as data


def test_many_branches(icectl: Icectl, tmp_path: Path) -> None:
    repo = linear_history(tmp_path / "repo", 3)
    tip = repo.lookup_branch("main")
    for number in range(200):
        repo.create_branch(f"branch-{number}", tip)
    found = read_documents(write(icectl, tmp_path / "repo", tmp_path / "page.html"))
    assert len(found["stats"]["branches"]) == 201


@pytest.mark.parametrize("kind", ["svg", "PNG"])
@pytest.mark.parametrize("by", ["arrays", "snapshots", "growth"])
def test_plot(icectl: Icectl, demo: Path, tmp_path: Path, kind: str, by: str) -> None:
    chart = tmp_path / f"chart.{kind}"
    words = ("stats", "-r", str(demo), "--by", by, "--json")
    done = icectl(*words, "--plot", str(chart))
    assert done.code == DONE
    assert done.document == icectl(*words).document
    drawn = chart.read_bytes()
    if kind == "PNG":
        assert drawn.startswith(b"\x89PNG")
    else:
        text = drawn.decode()
        assert ("/ocean/temperature" in text) == (by != "arrays")
        assert "temperature" in text


def test_plot_of_hostile_names(icectl: Icectl, tmp_path: Path) -> None:
    from xml.etree import ElementTree

    repository = hostile_repository(tmp_path / "repo")
    for by in ("arrays", "snapshots"):
        chart = tmp_path / f"{by}.svg"
        done = icectl("stats", "-r", str(repository), "--by", by, "--plot", str(chart))
        assert done.code == DONE, done.err
        names = {element.tag.rpartition("}")[2] for element in ElementTree.parse(chart).iter()}
        assert not names & {"img", "image", "script", "foreignObject", "a"}


def test_plot_of_an_empty_repository(icectl: Icectl, tmp_path: Path) -> None:
    assert icectl("init", str(tmp_path / "repo")).code == DONE
    for by in ("arrays", "snapshots"):
        chart = tmp_path / f"{by}.svg"
        done = icectl("stats", "-r", str(tmp_path / "repo"), "--by", by, "--plot", str(chart))
        assert done.code == DONE, done.err
        assert chart.read_text().startswith("<svg")


def test_plot_of_one_commit(icectl: Icectl, tmp_path: Path) -> None:
    with commit(create(tmp_path / "repo"), "one") as root:
        root.create_array("a", shape=(4,), dtype="f8")[:] = 1
    chart = tmp_path / "chart.svg"
    words = ("stats", "-r", str(tmp_path / "repo"), "--by", "snapshots", "--plot", str(chart))
    assert icectl(*words).code == DONE
    shape = re.findall(r'aria-roledescription="area mark"[^>]* d="([^"]*)"', chart.read_text())[0]
    places = [float(place) for place in re.findall(r"[ML](-?[0-9.]+),", shape)]
    assert max(places) - min(places) > 500


def test_plot_of_times_out_of_range(icectl: Icectl, tmp_path: Path) -> None:
    repository = repository_of_other_times(tmp_path / "repo", [0, 2**63, 2**64 - 1, 10**18])
    chart = tmp_path / "chart.svg"
    done = icectl("stats", "-r", str(repository), "--by", "growth", "--plot", str(chart))
    assert done.code == DONE, done.err
    assert "NaN" not in chart.read_text()


def test_plot_of_more_bytes_than_the_largest_unit(icectl: Icectl, tmp_path: Path) -> None:
    """Nobody checks the length of a virtual chunk when it is written."""
    prefix = "s3://bucket/"
    containers = {prefix: ic.VirtualChunkContainer(prefix, ic.s3_store(region="eu-central-1"))}
    repo = create(tmp_path / "repo", virtual_chunk_containers=containers)
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="huge", shape=(512,), chunks=(1,), dtype="i8")
    specs = [ic.VirtualChunkSpec([i], f"{prefix}{i}", 0, 2**62) for i in range(512)]
    assert session.store.set_virtual_refs("huge", specs) is None
    session.commit("huge")
    words = ("stats", "-r", str(tmp_path / "repo"), "--by", "snapshots", "--json")
    for kind in ("svg", "png"):
        done = icectl(*words, "--plot", str(tmp_path / f"chart.{kind}"))
        assert done.code == DONE, done.err
        assert int(done.document["virtual_bytes"]) == 2**71


@pytest.mark.parametrize("name", ["chart", "chart.pdf", "-", "none/chart.svg", ".svg"])
def test_wrong_names_of_plots(icectl: Icectl, demo: Path, tmp_path: Path, name: str) -> None:
    path = name if name == "-" else str(tmp_path / name)
    assert icectl("stats", "-r", str(demo), "--plot", path).code == USAGE


def test_official_reads_it_still(demo: Path, icectl: Icectl, tmp_path: Path) -> None:
    """A report changes nothing."""
    before = {path: path.stat().st_mtime_ns for path in demo.rglob("*")}
    write(icectl, demo, tmp_path / "page.html", "--older-than", OLDER_THAN, "--validate", "data")
    assert {path: path.stat().st_mtime_ns for path in demo.rglob("*")} == before
    assert open_official(demo).lookup_branch("main")
