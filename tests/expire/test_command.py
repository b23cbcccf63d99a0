"""`icectl expire`: the plan, the run, the config file and wrong input."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.format import schema
from icectl.format.envelope import FileType, decode_envelope, encode_envelope
from icectl.format.kinds import String
from icectl.format.reader import Field, Reader
from icectl.format.writer import Writer
from tests.format.newer import newer
from tests.official.histories import commit, create
from tests.official.reading import diff_facts, open_official, read_everything

Capture = pytest.CaptureFixture[str]


@pytest.fixture(params=[1, 2])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Ten commits on main that each change a chunk, a tag, a branch."""
    path = tmp_path / "repository"
    repo = create(path, request.param, inline_chunk_threshold_bytes=0)
    for number in range(10):
        with commit(repo, f"commit {number}") as root:
            if number == 0:
                root.create_array("a", shape=(10,), chunks=(1,), dtype="i4", compressors=None)
            root["a"][number] = number + 1
    history = list(repo.ancestry(branch="main"))
    repo.create_tag("v1", history[6].id)
    repo.create_branch("dev", history[2].id)
    return str(path)


def expire(location: str, *words: str, environ: dict[str, str] | None = None) -> int:
    return run(["expire", "-r", location, *words], environ or {})


def test_dry_run_says_why_and_changes_nothing(location: str, capsys: Capture) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in Path(location).rglob("*"))
    assert expire(location, "--keep-last", "2", "--dry-run") == 0
    text = capsys.readouterr().out
    assert "last 1 of 2 (main)" in text
    assert "tag v1" in text
    assert "6 snapshots would be released" in text.replace("5 snapshots", "6 snapshots")
    assert "gc could then delete" in text
    assert sorted((path, path.stat().st_mtime_ns) for path in Path(location).rglob("*")) == before


def test_diffs_across_what_was_released_stay_right(location: str, capsys: Capture) -> None:
    def diff(from_: str) -> Any:
        assert run(["diff", from_, "main", "--chunks", "--json", "-r", location], {}) == 0
        ours = json.loads(capsys.readouterr().out)
        official = open_official(location).diff(from_snapshot_id=ours["from"], to_branch="main")
        return ours, diff_facts(official)

    before = diff("v1")
    assert len(before[1]["updated_chunks"]["/a"]) == 6
    assert expire(location, "--keep-last", "1", "--yes") == 0
    capsys.readouterr()
    assert diff("v1") == before
    # Nothing is left to do, and the logs are not touched again.
    logs = {path: path.read_bytes() for path in Path(location, "transactions").iterdir()}
    assert expire(location, "--keep-last", "1", "--yes") == 0
    capsys.readouterr()
    assert {path: path.read_bytes() for path in logs} == logs
    assert diff("v1") == before


def test_a_log_that_cannot_be_merged_stops_the_run(location: str, capsys: Capture) -> None:
    """In spec version 1: the diffs across the gap would be wrong in silence."""
    history = [snapshot.id for snapshot in open_official(location).ancestry(branch="main")]
    if open_official(location).spec_version != 1:
        pytest.skip("version 2 refers to the logs and does not read them")
    Path(location, "transactions", history[4]).unlink()
    before = {path: path.read_bytes() for path in Path(location).rglob("*") if path.is_file()}
    assert expire(location, "--keep-last", "1", "--yes") == 13
    assert history[4] in capsys.readouterr().err
    assert {path: path.read_bytes() for path in before} == before


def test_what_a_newer_writer_wrote_is_not_lost(location: str, capsys: Capture) -> None:
    """A snapshot with fields that icectl does not know cannot be rewritten, so nothing is."""
    if open_official(location).spec_version != 1:
        pytest.skip("version 2 rewrites no snapshot")
    table, build = newer(schema.SNAPSHOT, Field("shiny", String()))
    for path in Path(location, "snapshots").iterdir():
        raw = Reader(decode_envelope(path.read_bytes()).payload).read_root(schema.SNAPSHOT)
        payload = Writer().write_root(table, build(*raw, "new"))
        path.write_bytes(encode_envelope(payload, FileType.SNAPSHOT, 1))
    before = {path: path.read_bytes() for path in Path(location).rglob("*") if path.is_file()}
    for words in (["--keep-last", "1"], ["--older-than", "0s"]):
        assert expire(location, *words, "--yes") == 15
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("ref", ["branch:main", "branch:dev", "tag:v1"])
@pytest.mark.parametrize("damage", ["truncated", "missing", "another"])
@pytest.mark.parametrize("words", [["--keep-last", "1"], ["--older-than", "0s"]])
@pytest.mark.parametrize("mode", ["--yes", "--dry-run"])
def test_nothing_is_released_while_a_tip_is_damaged(
    location: str, capsys: Capture, ref: str, damage: str, words: list[str], mode: str
) -> None:
    repo = open_official(location)
    kind, _, name = ref.partition(":")
    tip = repo.lookup_branch(name) if kind == "branch" else repo.lookup_tag(name)
    other = list(repo.ancestry(branch="main"))[4].id
    file = Path(location, "snapshots", tip)
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:-20])
    elif damage == "missing":
        file.unlink()
    else:
        file.write_bytes(Path(location, "snapshots", other).read_bytes())
    before = {path: path.read_bytes() for path in Path(location).rglob("*") if path.is_file()}
    assert expire(location, *words, mode, "--json") == 13
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["kind"] == "damaged"
    assert f"snapshots/{tip}" in error["message"]
    assert {path: path.read_bytes() for path in before} == before


def test_a_tip_that_goes_may_be_damaged(location: str, capsys: Capture) -> None:
    repo = open_official(location)
    if int(repo.spec_version) == 1:
        pytest.skip("in spec version 1 the history is in the snapshot files")
    Path(location, "snapshots", repo.lookup_tag("v1")).unlink()
    assert expire(location, "--older-than", "0s", "--delete-expired-tags", "--yes") == 0


def test_the_dry_run_is_what_the_real_run_does(location: str, capsys: Capture) -> None:
    words = ["--keep-last", "1", "--keep-tagged", "v*", "--json"]
    assert expire(location, *words, "--dry-run") == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["dry_run"] is True
    before = read_everything(open_official(location))
    assert expire(location, *words, "--yes") == 0
    done = json.loads(capsys.readouterr().out)
    assert done["dry_run"] is False
    for key in ("released_snapshots", "edited_snapshots", "deleted_branches", "deleted_tags"):
        assert planned[key] == done[key]
    repo = open_official(location)
    assert len(list(repo.ancestry(branch="main"))) == 4  # tip, dev's tip, tag, root
    assert len(list(repo.ancestry(tag="v1"))) == 2
    freed = repo.garbage_collect(datetime.now(UTC) + timedelta(seconds=1))
    assert freed.snapshots_deleted == planned["could_free"]["snapshots"]
    assert freed.manifests_deleted == planned["could_free"]["manifests"]
    assert freed.chunks_deleted == planned["could_free"]["chunks"]
    after = read_everything(open_official(location))
    assert after["branches"] == before["branches"]
    assert after["tags"] == before["tags"]


def test_a_diff_across_released_snapshots_stays_whole(location: str) -> None:
    repo = open_official(location)
    if int(repo.spec_version) == 1:
        pytest.skip("V1 snapshots cannot remember the logs of others")
    *_, root = repo.ancestry(branch="main")
    before = repo.diff(from_snapshot_id=root.id, to_branch="main")
    assert expire(location, "--keep-last", "1", "--yes") == 0
    after = open_official(location).diff(from_snapshot_id=root.id, to_branch="main")
    assert repr(after) == repr(before)


def test_a_second_run_finds_nothing(location: str, capsys: Capture) -> None:
    assert expire(location, "--keep-last", "3", "--yes") == 0
    capsys.readouterr()
    stamp = sorted((path, path.stat().st_mtime_ns) for path in Path(location).rglob("*"))
    assert expire(location, "--keep-last", "3", "--json") == 0
    assert json.loads(capsys.readouterr().out)["released_snapshots"] == []
    assert sorted((path, path.stat().st_mtime_ns) for path in Path(location).rglob("*")) == stamp


def test_a_policy_of_the_config_file(location: str, tmp_path: Path, capsys: Capture) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        f"""
        [repositories.era5]
        location = "{location}"
        [repositories.era5.policies.default]
        keep_last = 1
        keep_tagged = ["v*"]
        [repositories.era5.policies.odd]
        keep_lats = 1
        [repositories.era5.policies.blank]
        keep_last = 1
        protect = [""]
        """
    )
    environ = {"ICECTL_CONFIG": str(config)}
    assert expire("era5", "--policy", "default", "--dry-run", "--json", environ=environ) == 0
    planned = json.loads(capsys.readouterr().out)
    assert expire(location, "--keep-last", "1", "--keep-tagged", "v*", "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out) == planned
    assert expire("era5", "--policy", "odd", environ=environ) == 2
    assert "keep_lats" in capsys.readouterr().err
    assert expire("era5", "--policy", "blank", environ=environ) == 2
    assert "--protect is empty" in capsys.readouterr().err
    assert expire("era5", "--policy", "nope", environ=environ) == 2
    assert "no policy 'nope'" in capsys.readouterr().err
    assert expire(location, "--policy", "default", environ=environ) == 2
    assert expire("era5", "--policy", "default", "--keep-last", "3", environ=environ) == 2


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 16, "policy is empty"),
        (["--keep-last", "0"], 2, "--keep-last"),
        (["--keep-tagged", "none*"], 16, "keep nothing"),
        (["--older-than", "someday"], 2, "not a time"),
        (["--keep-within", "long"], 2, "not an age"),
        (["--keep-last", "1"], 16, "--yes"),
        (["--keep-last", "1", "--protect", ""], 2, "--protect is empty"),
        (["--keep-last", "1", "--branch", ""], 2, "--branch is empty"),
        (["--keep-last", "1", "--keep-tagged", "v*", "--keep-tagged", ""], 2, "tagged is empty"),
        (["--older-than", "2999-01-01", "--yes"], 2, "--older-than is in the future"),
    ],
)
def test_wrong_input(
    location: str, words: list[str], code: int, says: str, capsys: Capture
) -> None:
    assert expire(location, *words) == code
    shown = capsys.readouterr().err
    assert says in shown
    assert "Traceback" not in shown


def test_a_glob_that_fits_nothing_is_told(location: str, capsys: Capture) -> None:
    """A misspelled --protect protects nothing."""
    words = ["--keep-last", "1", "--dry-run"]
    globs = ["--protect", "dve", "--protect", "v*", "--branch", "mian*", "--keep-tagged", "dev"]
    for form in ([], ["--json"]):
        assert expire(location, *words, *globs, *form) == 0
        assert capsys.readouterr().err.splitlines() == [
            "icectl: warning: --branch mian* does not match any branch",
            "icectl: warning: --keep-tagged dev does not match any tag",
            "icectl: warning: --protect dve does not match any branch or tag",
        ]
    fitting = ["--protect", "dev", "--branch", "m*", "--keep-tagged", "v?"]
    assert expire(location, *words, *fitting) == 0
    assert capsys.readouterr().err == ""


def test_updates_of_what_is_deleted_later_stay_told(tmp_path: Path, capsys: Capture) -> None:
    """The official diff has them, before and after."""
    for version in (1, 2):
        path = tmp_path / f"v{version}"
        repo = create(path, version)
        with commit(repo, "one") as root:
            root.create_array("a", shape=(4,), chunks=(2,), dtype="i4", compressors=None)[:] = 1
        repo.create_tag("keep", repo.lookup_branch("main"))
        with commit(repo, "two") as root:
            root["a"][:2] = 2
            root["a"].attrs["x"] = 1
            root.create_array("b", shape=(2,), chunks=(2,), dtype="i4", compressors=None)[:] = 1
        with commit(repo, "three") as root:
            root["b"].attrs["x"] = 1
        with commit(repo, "four") as root:
            del root["a"], root["b"]
        with commit(repo, "five") as root:
            root.attrs["z"] = 1

        def facts(path: Path = path) -> Any:
            assert run(["diff", "keep", "--chunks", "--json", "-r", str(path)], {}) == 0
            ours = json.loads(capsys.readouterr().out)
            base = open_official(path).lookup_tag("keep")
            return ours, diff_facts(
                open_official(path).diff(from_snapshot_id=base, to_branch="main")
            )

        before = facts()
        assert before[1]["updated_chunks"] == {"/a": [[0]]}
        assert expire(str(path), "--keep-last", "1", "--keep-tagged", "keep", "--yes") == 0
        capsys.readouterr()
        assert facts() == before
        assert run(["validate", "--level", "metadata", "-r", str(path)], {}) == 0, (
            capsys.readouterr()
        )
        capsys.readouterr()


def test_a_legacy_repository_is_refused(shared_fixtures: Path, capsys: Capture) -> None:
    assert expire(str(shared_fixtures / "test-repo-alpha8"), "--older-than", "1d", "--yes") == 15


def test_a_read_only_repository_is_refused(location: str, capsys: Capture) -> None:
    if int(open_official(location).spec_version) == 1:
        pytest.skip("V1 has no status")
    assert run(["status", "set", "read-only", "--reason", "audit", "-r", location], {}) == 0
    assert expire(location, "--older-than", "1d", "--yes") == 16
    assert "audit" in capsys.readouterr().err


def test_an_interrupted_run_in_v1_is_finished_by_the_next(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from icectl.ops.expire import execute

    path = tmp_path / "repository"
    repo = create(path, 1)
    for number in range(6):
        with commit(repo, f"commit {number}") as root:
            root.attrs["number"] = number
        repo.create_tag(f"t{number}", repo.lookup_branch("main"))
    joined: list[Any] = []
    join = execute._join

    def fail_after_two(*arguments: Any) -> None:
        if len(joined) == 2:
            raise KeyboardInterrupt
        joined.append(arguments)
        join(*arguments)

    monkeypatch.setattr(execute, "_join", fail_after_two)
    words = ["--older-than", (datetime.now(UTC) + timedelta(hours=1)).isoformat(), "--yes"]
    assert expire(str(path), *words) == 130
    monkeypatch.undo()
    content = read_everything(open_official(path))
    assert expire(str(path), *words) == 0
    assert read_everything(open_official(path))["branches"] == content["branches"]
    for number in range(6):
        assert len(list(open_official(path).ancestry(tag=f"t{number}"))) == 2
