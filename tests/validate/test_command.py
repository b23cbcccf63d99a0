"""`icectl validate`: exit codes, output for people and machines, baselines, narrowing, writers."""

from __future__ import annotations

import json
import re
import shutil
import threading
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from icectl.checks.rules import catalogue
from icectl.ops.gc.safeguards import read_known_missing
from icectl.ops.validate.run import ValidateOptions, validate
from icectl.storage.local import LocalStorage
from tests.command_line import Icectl, environ, icectl  # noqa: F401
from tests.official import built, ic, linear_history, open_official, zarr
from tests.official.histories import commit, create
from tests.validate.damage import Patient, build, copied_with_source


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, build, 2)


@pytest.fixture
def hurt(whole: Path, tmp_path: Path) -> Path:
    """A repository without one chunk of /g/native, which dev, main and both tags reach."""
    where = copied_with_source(whole, tmp_path / "repo")
    Patient(where).chunk_of("/g/native").unlink()
    return where


def test_sound(icectl: Icectl, whole: Path) -> None:  # noqa: F811
    done = icectl(
        *("validate", "-r", str(whole), "--level", "data", "--decode"),
        *("--virtual", "--allow-source", "file:///", "--json"),
    )
    assert done.code == 0, done.out
    assert (done.document["ok"], done.document["findings"]) == (True, [])


def test_many_findings_are_summed_up(icectl: Icectl, tmp_path: Path) -> None:  # noqa: F811
    where = tmp_path / "repo"
    linear_history(where, 12)
    for path in (where / "transactions").iterdir():
        path.unlink()
    document = icectl("validate", "-r", str(where), "--json").document
    summary = {group["code"]: group for group in document["summary"]}
    assert {code: group["count"] for code, group in summary.items()} == document["by_code"]
    assert list(summary) == ["ICE0201", "ICE0211"]
    group = summary["ICE0201"]
    assert (group["severity"], group["count"]) == ("error", 12)
    assert (group["title"], group["common"]) == (catalogue()["ICE0201"].title, "transactions/")
    assert group["likely_cause"]
    # The text shows the same group.
    text = icectl("validate", "-r", str(where)).out
    assert all(str(group[key]) in text for key in ("code", "count", "common", "title"))
    assert group["likely_cause"] in text


def test_few_findings_are_not_summed_up(icectl: Icectl, hurt: Path) -> None:  # noqa: F811
    done = icectl("validate", "-r", str(hurt), "--level", "chunks", "--json")
    assert done.code == 3
    document = done.document
    [group] = document["summary"]
    assert (group["code"], group["count"]) == ("ICE0401", 1)
    assert group["common"] == document["findings"][0]["object"]


def test_json_has_the_contract(icectl: Icectl, hurt: Path) -> None:  # noqa: F811
    done = icectl("validate", "-r", str(hurt), "--level", "chunks", "--json")
    assert done.code == 3
    document = done.document
    assert document["ok"] is False
    assert document["level"] == "chunks"
    (finding,) = document["findings"]
    assert finding["code"] == "ICE0401"
    assert finding["severity"] == "error"
    assert finding["object"].startswith("chunks/")
    assert finding["path"] == "/g/native"
    assert set(finding["branches"]) <= {"dev", "main"}
    assert finding["branches"]
    checked = document["checked"]
    assert checked.keys() >= {"snapshots", "transaction_logs", "manifests", "chunk_refs", "chunks"}
    assert checked["snapshots"] == 5
    assert checked["chunk_refs"] > checked["chunks"] > 0


def test_jsonl_is_one_finding_per_line(icectl: Icectl, hurt: Path) -> None:  # noqa: F811
    done = icectl("validate", "-r", str(hurt), "--level", "chunks", "--jsonl")
    (line,) = done.out.splitlines()
    assert json.loads(line)["code"] == "ICE0401"


def test_last_sound_version(whole: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole, tmp_path / "repo")
    patient = Patient(where)
    (where / "snapshots" / patient.tip).unlink()
    result, _ = validate(LocalStorage(where), ValidateOptions())
    found = {finding.code: finding for finding in result.findings}["ICE0101"]
    assert found.branches == ("main",)
    assert found.tags == ()
    assert str(found.last_sound_version) == patient.history[1]


def test_virtual_source_of_two_manifests(icectl: Icectl, tmp_path: Path) -> None:  # noqa: F811
    """What is reached by two branches is told to be, though each has its own manifest."""
    prefix = f"file://{tmp_path.absolute()}/source/"
    (tmp_path / "source").mkdir()
    container = ic.VirtualChunkContainer(prefix, ic.local_filesystem_store(str(tmp_path)))
    where = tmp_path / "repo"
    repo = create(where, virtual_chunk_containers={prefix: container})
    repo.create_branch("other", repo.lookup_branch("main"))
    for branch in ("main", "other"):
        session = repo.writable_session(branch)
        root = zarr.open_group(session.store, mode="a")
        root.create_array("v", shape=(4,), chunks=(4,), dtype="u1", compressors=None)
        session.store.set_virtual_refs("v", [ic.VirtualChunkSpec([0], f"{prefix}gone", 0, 4)])
        session.commit(branch)
    command = ("validate", "-r", str(where), "--virtual", "--allow-source", prefix, "--json")
    (finding,) = icectl(*command).document["findings"]
    assert finding["code"] == "ICE0601"
    assert finding["branches"] == ["main", "other"]


def test_a_virtual_source_behind_a_link(icectl: Icectl, tmp_path: Path) -> None:  # noqa: F811
    """Only below the root of a repository are links not followed."""
    prefix = f"file://{tmp_path.absolute()}/source/"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(bytes(4))
    (tmp_path / "source").symlink_to("elsewhere")
    (tmp_path / "source" / "newest").symlink_to("file")
    container = ic.VirtualChunkContainer(prefix, ic.local_filesystem_store(str(tmp_path)))
    where = tmp_path / "repo"
    repo = create(where, virtual_chunk_containers={prefix: container})
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    root.create_array("v", shape=(4,), chunks=(4,), dtype="u1", compressors=None)
    session.store.set_virtual_refs("v", [ic.VirtualChunkSpec([0], f"{prefix}newest", 0, 4)])
    session.commit("main")
    outcome = icectl("validate", "-r", str(where), "--virtual", "--json")
    assert (outcome.code, outcome.document["findings"]) == (0, [])


def test_refs_narrow(icectl: Icectl, whole: Path, tmp_path: Path) -> None:  # noqa: F811
    where = copied_with_source(whole, tmp_path / "repo")
    (where / "snapshots" / Patient(where).tip).unlink()
    assert icectl("validate", "-r", str(where)).code == 3
    assert icectl("validate", "dev", "kept", "-r", str(where)).code == 0
    assert icectl("validate", "nothing", "-r", str(where)).code == 12


def test_levels_end_where_they_say(icectl: Icectl, hurt: Path) -> None:  # noqa: F811
    assert icectl("validate", "-r", str(hurt), "--level", "manifests").code == 0
    assert icectl("validate", "-r", str(hurt), "--level", "chunks").code == 3


def test_fail_on_warning(icectl: Icectl, whole: Path, tmp_path: Path) -> None:  # noqa: F811
    where = copied_with_source(whole, tmp_path / "repo")
    min((where / "overwritten").iterdir()).unlink()
    assert icectl("validate", "-r", str(where)).code == 0
    assert icectl("validate", "-r", str(where), "--fail-on", "warning").code == 3


def test_every_copy_of_the_repo_file_has_content(
    icectl: Icectl,  # noqa: F811
    whole: Path,
    tmp_path: Path,
) -> None:
    """Also those that the ops log names and nobody has to read."""
    where = copied_with_source(whole, tmp_path / "repo")
    copies = sorted((where / "overwritten").iterdir())
    for copy in copies:
        copy.write_bytes(b"")
    done = icectl("validate", "-r", str(where), "--level", "refs", "--json")
    found = [finding["object"] for finding in done.document["findings"]]
    assert found == [f"overwritten/{copy.name}" for copy in copies]
    assert done.document["by_code"] == {"ICE0015": len(copies)}


def test_max_findings_counts_all(icectl: Icectl, hurt: Path) -> None:  # noqa: F811
    for chunk in (hurt / "chunks").iterdir():
        chunk.unlink()
    found = icectl(
        "validate", "-r", str(hurt), "--level", "chunks", "--max-findings", "2", "--json"
    ).document
    assert len(found["findings"]) == 2
    assert found["errors"] == 2 + found["findings_left_out"] > 5


def test_last_sound_version_counts_what_is_left_out(whole: Path, tmp_path: Path) -> None:
    where = copied_with_source(whole, tmp_path / "repo")
    patient = Patient(where)
    for snapshot in patient.history[:2]:
        (where / "transactions" / snapshot).unlink()
    result, _ = validate(LocalStorage(where), ValidateOptions(max_findings=1))
    (finding,) = result.findings
    assert result.errors == 2
    assert str(finding.last_sound_version) == patient.history[2]


def test_known_findings_hide_no_others(icectl: Icectl, hurt: Path, tmp_path: Path) -> None:  # noqa: F811
    known = str(tmp_path / "baseline.jsonl")
    for chunk in (hurt / "chunks").iterdir():
        chunk.unlink()
    arguments = ("validate", "-r", str(hurt), "--level", "chunks", "--max-findings", "1", "--json")
    first = icectl(*arguments, "--write-baseline", known).document
    assert len(first["findings"]) == 1
    written = Path(known).read_text().splitlines()
    assert len(written) == 1 + first["findings_left_out"] > 5
    assert icectl(*arguments, "--baseline", known).code == 0
    (hurt / "transactions" / Patient(hurt).tip).unlink()
    again = icectl(*arguments, "--baseline", known)
    assert again.code == 3
    shown = {finding["code"]: finding["known"] for finding in again.document["findings"]}
    assert shown == {"ICE0201": False, "ICE0401": True}
    assert again.document["by_code"] == {"ICE0201": 1}
    assert again.document["findings_left_out"] == len(written) - 1


def test_baseline_excuses(icectl: Icectl, hurt: Path, tmp_path: Path) -> None:  # noqa: F811
    known = str(tmp_path / "baseline.jsonl")
    arguments = ("validate", "-r", str(hurt), "--level", "chunks")
    assert icectl(*arguments, "--write-baseline", known).code == 3
    again = icectl(*arguments, "--baseline", known, "--json")
    assert again.code == 0
    assert [finding["known"] for finding in again.document["findings"]] == [True]
    (hurt / "snapshots" / Patient(hurt).tip).unlink()
    assert icectl(*arguments, "--baseline", known).code == 3


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"not a finding\n", "line 1"),
        (b"\n[1]\n", "line 2"),
        (b'{"code": 1, "object": "repo"}', "line 1"),
        (b"[" * 100_000, "line 1"),
        (b"\xff", "is not a text file"),
        (None, "cannot be read"),
    ],
)
def test_wrong_baselines(
    icectl: Icectl,  # noqa: F811
    whole: Path,
    tmp_path: Path,
    content: bytes | None,
    told: str,
) -> None:
    known = tmp_path / "baseline"
    if content is not None:
        known.write_bytes(content)
    wrong = icectl("validate", "-r", str(whole), "--baseline", str(known))
    assert wrong.code == 2
    assert told in wrong.err
    assert "`icectl validate --write-baseline FILE" in wrong.err


def test_only_tags(
    icectl: Icectl,  # noqa: F811
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Who lost all branches has a damaged repository, not none."""
    where = copied_with_source(built(tmp_path_factory, build, 1), tmp_path / "repo")
    for branch in ("main", "dev"):
        shutil.rmtree(where / "refs" / f"branch.{branch}")
    done = icectl("validate", "-r", str(where), "--level", "manifests", "--json")
    assert done.code == 3
    found = {finding["code"]: finding for finding in done.document["findings"]}
    assert found.keys() == {"ICE0007"}
    assert found["ICE0007"]["object"] == "refs"
    assert done.document["checked"]["snapshots"] == 3


def test_lost_objects_are_listed_for_gc(icectl: Icectl, hurt: Path, tmp_path: Path) -> None:  # noqa: F811
    lost = tmp_path / "lost"
    assert (
        icectl("validate", "-r", str(hurt), "--level", "chunks", "--known-missing", str(lost)).code
        == 3
    )
    (path,) = read_known_missing(lost)
    assert path.startswith("chunks/")
    gc = ("gc", "-r", str(hurt), "--older-than", "0s", "--allow-recent", "--dry-run")
    assert icectl(*gc).code == 13
    assert icectl(*gc, "--known-missing", str(lost)).code == 0


def test_junit(icectl: Icectl, hurt: Path, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "report.xml"
    icectl("validate", "-r", str(hurt), "--level", "chunks", "--junit", str(file))
    suite = ElementTree.parse(file).getroot().find("testsuite")
    assert suite is not None
    cases = {case.get("name", "")[:7]: case for case in suite}
    assert "ICE0501" not in cases  # another level
    assert suite.get("failures") == "1"
    assert int(suite.get("tests") or 0) == len(cases)
    (failure,) = cases["ICE0401"]
    assert "/g/native" in (failure.text or "")
    assert len(cases["ICE0301"]) == 0


def test_junit_fails_by_findings_left_out(icectl: Icectl, hurt: Path, tmp_path: Path) -> None:  # noqa: F811
    (hurt / "transactions" / Patient(hurt).tip).unlink()
    file = tmp_path / "report.xml"
    arguments = ("validate", "-r", str(hurt), "--level", "chunks", "--max-findings", "1")
    icectl(*arguments, "--junit", str(file))
    suite = ElementTree.parse(file).getroot().find("testsuite")
    assert suite is not None
    failed = {case.get("name", "")[:7]: case[0] for case in suite if len(case)}
    assert failed.keys() == {"ICE0201", "ICE0401"}
    assert suite.get("failures") == "2"
    assert failed["ICE0401"].get("message") == "1 finding: all omitted from the list"


def test_sarif(icectl: Icectl, hurt: Path, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "report.sarif"
    icectl("validate", "-r", str(hurt), "--level", "chunks", "--sarif", str(file))
    (run,) = json.loads(file.read_text())["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(catalogue())
    (result,) = run["results"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "ICE0401"
    assert result["level"] == "error"
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(r"chunks/[0-9A-Z]{20}", uri)


def test_github(icectl: Icectl, hurt: Path) -> None:  # noqa: F811
    done = icectl("validate", "-r", str(hurt), "--level", "chunks", "--github")
    assert done.code == 3
    assert done.out.startswith("::error title=ICE0401 ")
    assert done.out.count("\n") == 1


def test_explain(icectl: Icectl) -> None:  # noqa: F811
    [rule] = icectl("validate", "--explain", "ice0401", "--json").document["rules"]
    assert rule["title"] == catalogue()["ICE0401"].title
    assert rule["explanation"] == catalogue()["ICE0401"].explanation
    every = icectl("validate", "--explain", "all", "--json").document["rules"]
    assert [rule["code"] for rule in every] == list(catalogue())
    assert icectl("validate", "--explain", "ICE9999").code == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--level", "deep"], 2),
        (["--sample", "1%"], 2),
        (["--decode"], 2),
        (["--level", "data", "--sample", "200%"], 2),
        (["--level", "data", "--sample", "many"], 2),
        (["--baseline", "/does/not/exist"], 2),
        (["--github", "--json"], 2),
        (["--github", "--jsonl"], 2),
        (["--baseline", ""], 2),
    ],
)
def test_wrong_calls(icectl: Icectl, whole: Path, arguments: list[str], code: int) -> None:  # noqa: F811
    json_ = () if "--github" in arguments else ("--json",)
    done = icectl("validate", "-r", str(whole), *arguments, *json_)
    assert done.code == code
    assert (done.error["kind"], bool(done.error["hint"])) == ("usage", True)


@pytest.mark.parametrize("option", ["--junit", "--sarif", "--write-baseline", "--known-missing"])
@pytest.mark.parametrize("path", ["", ".", "/does/not/exist/report"])
def test_reports_that_cannot_be_written(icectl: Icectl, option: str, path: str) -> None:  # noqa: F811
    """Told before the repository, which is not there, is even opened."""
    done = icectl("validate", "-r", "/does/not/exist", option, path, "--json")
    assert (done.code, done.error["kind"]) == (2, "usage")
    assert option in done.error["message"] and option in done.error["hint"]


def test_no_repository_is_no_finding(icectl: Icectl, tmp_path: Path) -> None:  # noqa: F811
    assert icectl("validate", "-r", str(tmp_path)).code == 10


def test_unreadable_repo_file_is_a_finding(icectl: Icectl, whole: Path, tmp_path: Path) -> None:  # noqa: F811
    where = copied_with_source(whole, tmp_path / "repo")
    (where / "repo").write_bytes(b"nothing")
    done = icectl("validate", "-r", str(where), "--json")
    assert done.code == 3
    assert [finding["code"] for finding in done.document["findings"]] == ["ICE0001"]
    assert done.document["notes"]


def test_while_writers_commit(whole: Path, tmp_path: Path) -> None:
    """Every state that is read while another process commits, resets and collects is sound."""
    where = copied_with_source(whole, tmp_path / "repo")
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            number = 0
            while not stop.is_set():
                repo = open_official(where)
                with commit(repo, f"while validating {number}") as root:
                    root["g/native"][...] = np.full((16, 8), number)
                    root.create_group(f"new {number}")
                number += 1
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        from icectl.checks.rules import Level

        for _ in range(5):
            result, _ = validate(LocalStorage(where), ValidateOptions(level=Level.CHUNKS))
            assert result.errors == 0, result.findings
    finally:
        stop.set()
        writer.join()
    assert not failures
