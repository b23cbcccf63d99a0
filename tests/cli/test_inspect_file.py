"""`icectl inspect-file`: one lone file, a file of a repository, and a damaged one."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from icectl.cli.main import run
from icectl.format.envelope import FileType, decode_envelope, encode_envelope
from icectl.format.manifest import encode_manifest
from icectl.format.repo import decode_repo, encode_repo
from icectl.model.ids import INITIAL_SNAPSHOT_ID, ChunkId, ManifestId, NodeId
from icectl.model.manifest import ArrayManifest, ChunkRefs, Manifest, RefKind, Spans
from icectl.model.repo import (
    Ref,
    RepoInfo,
    RepoInitializedUpdate,
    RepoStatus,
    SnapshotInfo,
    Update,
)

Capture = pytest.CaptureFixture[str]
CHUNK = ChunkId(bytes(range(12)))


@pytest.fixture
def repo_file(tmp_path: Path) -> Path:
    info = RepoInfo(
        spec_version=2,
        tags=(),
        branches=(Ref("main", INITIAL_SNAPSHOT_ID),),
        deleted_tags=(),
        snapshots=(
            SnapshotInfo(INITIAL_SNAPSHOT_ID, None, 1_700_000_000_000_000, "evil \x1b[31m"),
        ),
        status=RepoStatus(0, 1_700_000_000_000_000),
        metadata=None,
        latest_updates=(Update(RepoInitializedUpdate(), 1_700_000_000_000_000),),
    )
    path = tmp_path / "repo"
    path.write_bytes(encode_repo(info))
    return path


@pytest.fixture
def manifest_file(tmp_path: Path) -> Path:
    data = b"\0" + b"inline" + b"s3://bucket/file.nc"
    refs = ChunkRefs(
        np.array([[0, 0], [0, 1], [1, 0]], np.uint32),
        np.array([RefKind.NATIVE, RefKind.INLINE, RefKind.VIRTUAL], np.uint8),
        np.array([list(CHUNK), [0] * 12, [0] * 12], np.uint8),
        np.array([5, 0, 2**60], np.uint64),
        np.array([10, 0, 7], np.uint64),
        Spans(data, np.array([0, 1, 7], np.uint32), np.array([0, 6, 19], np.uint32)),
        None,
        np.array([0, 0, 1_700_000_000], np.uint32),
        None,
    )
    manifest = Manifest(2, ManifestId(bytes(12)), (ArrayManifest(NodeId(bytes(8)), refs),))
    path = tmp_path / "lonely"
    path.write_bytes(encode_manifest(manifest))
    return path


def test_json_has_the_keys_of_the_contract(repo_file: Path, capsys: Capture) -> None:
    assert run(["inspect-file", str(repo_file), "--json"], {}) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "repo"
    assert document["generation"] == "v2"
    assert document["header"]["spec_version"] == 2
    assert document["header"]["file_type"] == "repo"
    assert document["size_bytes"] == repo_file.stat().st_size
    assert document["payload_bytes"] == len(decode_envelope(repo_file.read_bytes()).payload)
    assert document["content"]["branches"] == [{"name": "main", "snapshot_index": 0}]
    assert document["content"]["snapshots"][0]["flushed_at"] == "2023-11-14T22:13:20.000000Z"
    update = document["content"]["latest_updates"][0]
    assert update["update_type"] == {"type": "RepoInitializedUpdate"}


def test_text_escapes_what_the_file_says(repo_file: Path, capsys: Capture) -> None:
    assert run(["inspect-file", str(repo_file)], {}) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "1CECHNKREP0F1RSTCMT0" in shown


def test_a_lone_manifest(manifest_file: Path, capsys: Capture) -> None:
    assert run(["inspect-file", str(manifest_file), "--json"], {}) == 0
    refs = json.loads(capsys.readouterr().out)["content"]["arrays"][0]["refs"]
    assert (refs["native"], refs["inline"], refs["virtual"], refs["count"]) == (1, 1, 1, 3)


def test_references_are_streamed(manifest_file: Path, capsys: Capture) -> None:
    assert run(["inspect-file", str(manifest_file), "--refs", "--jsonl"], {}) == 0
    native, inline, virtual = map(json.loads, capsys.readouterr().out.splitlines())
    assert native["chunk_id"] == str(CHUNK)
    assert (native["index"], native["offset"], native["length"]) == ([0, 0], 5, 10)
    assert (inline["kind"], inline["length"]) == ("inline", 6)
    assert virtual["location"] == "s3://bucket/file.nc"
    assert virtual["offset"] == str(2**60)
    assert virtual["checksum_last_modified"] == 1_700_000_000


def test_references_of_something_else(repo_file: Path, capsys: Capture) -> None:
    assert run(["inspect-file", str(repo_file), "--refs"], {}) == 2
    assert "only a manifest has references" in capsys.readouterr().err


def test_raw_payload_from_stdin(
    repo_file: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = repo_file.read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert run(["inspect-file", "-", "--raw"], {}) == 0
    assert capsysbinary.readouterr().out == decode_envelope(data).payload


def test_by_name_and_by_id(shared_fixtures: Path, capsys: Capture) -> None:
    location = str(shared_fixtures / "test-repo-v1")
    for name in ("snapshots/4QF8JA0YPDN51MHSSYVG", "4qf8ja0ypdn51mhssyvg"):
        assert run(["inspect-file", "-r", location, name, "--json"], {}) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["path"] == "snapshots/4QF8JA0YPDN51MHSSYVG"
        assert document["content"]["id"] == "4QF8JA0YPDN51MHSSYVG"
    assert run(["inspect-file", "-r", location, "4QF8JA0YPDN51MHSSYV0"], {}) == 12


def test_every_fixture_is_read_without_a_problem(shared_fixtures: Path, capsys: Capture) -> None:
    kinds = {"snapshots": "snapshot", "manifests": "manifest", "transactions": "transaction_log"}
    files = [path for path in sorted(shared_fixtures.rglob("*")) if path.is_file()]
    assert files
    for path in files:
        assert run(["inspect-file", str(path), "--json"], {}) == 0, path
        document = json.loads(capsys.readouterr().out)
        assert document["problems"] == [], path
        if path.parent.name in kinds:
            assert document["kind"] == kinds[path.parent.name]
        if path.parent.parent.name == "refs":
            assert document["kind"] == "ref"


def test_a_cut_file_shows_where(repo_file: Path, capsys: Capture) -> None:
    whole = repo_file.read_bytes()
    repo_file.write_bytes(whole[:-3])
    assert run(["inspect-file", str(repo_file)], {}) == 13
    output = capsys.readouterr()
    assert f"(at byte {len(whole) - 3})" in output.err
    assert "kind:" in output.out


def test_what_can_be_read_of_a_damaged_file_is_shown(repo_file: Path, capsys: Capture) -> None:
    info = decode_repo(repo_file.read_bytes())
    payload = bytearray(decode_envelope(repo_file.read_bytes()).payload)
    message = payload.index(info.snapshots[0].message.encode())
    payload[message : message + 2] = b"\xff\xff"
    repo_file.write_bytes(encode_envelope(payload, FileType.REPO_INFO, 2))
    assert run(["inspect-file", str(repo_file), "--json"], {}) == 13
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert document["content"]["branches"] == [{"name": "main", "snapshot_index": 0}]
    assert document["content"]["snapshots"][0]["id"] == "1CECHNKREP0F1RSTCMT0"
    assert "SnapshotInfo.message" in document["problems"][0]
    error = json.loads(output.err)["error"]
    assert error["exit_code"] == 13
    assert f"at byte {message}" in error["message"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["./absent"], 2, "cannot be read"),
        (["absent"], 10, "the file absent does not exist"),
        (["file:///absent"], 14, "absent does not exist"),
        (["--raw", "--json", "-"], 2, "--raw"),
        (["--jsonl", "-"], 2, "--jsonl requires --refs"),
    ],
)
def test_wrong_input(
    words: list[str],
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["inspect-file", *words], {}) == code
    assert says in capsys.readouterr().err


def test_foreign_bytes_are_a_chunk(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "chunk"
    path.write_bytes(bytes(range(256)))
    assert run(["inspect-file", str(path), "--json"], {}) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "chunk"
    assert document["header"] is None


ID = str(INITIAL_SNAPSHOT_ID)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        (f"snapshots/{ID}", bytes(range(256)), "not a valid snapshot file"),
        (f"s/{ID}", b"", "not a valid snapshot file"),
        (f"manifests/{ID}", b"", "not a valid manifest file"),
        (f"m/{ID}", b"\0", "not a valid manifest file"),
        (f"transactions/{ID}", b"", "not a valid transaction log file"),
        (f"attributes/{ID}", b"", "not a valid attributes file"),
        ("repo", b"", "not a valid repo file"),
        (f"overwritten/repo.1.{ID}", b"x", "not a valid repo file"),
        ("config.yaml", b": : [bad", "not a valid config file"),
        ("refs/branch.main/ref.json", b'{"snapshot":"bad"}', "snapshot id"),
        ("refs/tag.x/ref.json", b"", "not a valid ref file"),
        ("r/main/ZZZZZZZZ.json", b"{}", "snapshot id"),
    ],
)
def test_a_name_promises_a_kind(
    name: str, data: bytes, says: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    assert run(["inspect-file", str(path), "--json"], {}) == 13
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert (document["kind"], document["content"]) == ("unknown", {})
    assert says in document["problems"][0]
    assert says in json.loads(output.err)["error"]["message"]
    assert run(["inspect-file", str(path)], {}) == 13


def test_a_file_in_the_wrong_place(repo_file: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "snapshots" / ID
    path.parent.mkdir()
    path.write_bytes(repo_file.read_bytes())
    assert run(["inspect-file", str(path), "--json"], {}) == 13
    output = capsys.readouterr()
    assert "not a valid snapshot file: the content is a repo" in output.err
    assert json.loads(output.out)["content"]["branches"]


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        (f"chunks/{ID}", b"", "chunk"),
        ("snapshots/notes", b"x", "chunk"),
        ("r/notes.json", b"[]", "chunk"),
        ("refs/tag.x/ref.json.deleted", b"", "ref"),
        ("config.yaml", b"{}\n", "config"),
    ],
)
def test_other_names_promise_nothing(
    name: str, data: bytes, kind: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    assert run(["inspect-file", str(path), "--json"], {}) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == kind


def test_generations_are_named_as_in_status(shared_fixtures: Path, capsys: Capture) -> None:
    for name, generation in (("alpha8", "alpha-raw"), ("0.1.0", "alpha-binary")):
        repository = shared_fixtures / f"test-repo-{name}"
        file = next((repository / "snapshots").iterdir())
        assert run(["inspect-file", str(file), "--json"], {}) == 0
        assert json.loads(capsys.readouterr().out)["generation"] == generation
        assert run(["status", "-r", str(repository), "--json"], {}) == 0
        assert json.loads(capsys.readouterr().out)["generation"] == generation


@pytest.mark.parametrize("name", ["../x", "/etc/hosts", "snapshots//x", "a/./b"])
def test_a_name_outside_the_repository(name: str, shared_fixtures: Path, capsys: Capture) -> None:
    location = str(shared_fixtures / "test-repo-v1")
    assert run(["inspect-file", "-r", location, name], {}) == 2
    error = capsys.readouterr().err
    assert "is not the name of a file inside the repository" in error
    assert "hint: " in error


def test_a_file_that_may_not_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def deny(*_arguments: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "stat", deny)
    monkeypatch.setattr(Path, "open", deny)
    assert run(["inspect-file", "repository/repo"], {}) == 2
    assert "cannot be read: Permission denied" in capsys.readouterr().err
