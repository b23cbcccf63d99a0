"""`icectl inspect-file`: one lone file, a file of a repository, and a damaged one."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
from tests.command_line import Icectl

Inspect = Callable[..., Any]
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


@pytest.fixture
def inspect(icectl: Icectl) -> Inspect:
    """The document of a file without problems."""

    def call(*words: str | Path) -> Any:
        outcome = icectl("inspect-file", *map(str, words), "--json")
        assert (outcome.code, outcome.err) == (0, "")
        return outcome.document

    return call


def test_json_has_the_keys_of_the_contract(repo_file: Path, inspect: Inspect) -> None:
    document = inspect(repo_file)
    assert (document["kind"], document["generation"]) == ("repo", "v2")
    assert document["header"]["spec_version"] == 2
    assert document["header"]["file_type"] == "repo"
    assert document["size_bytes"] == repo_file.stat().st_size
    assert document["payload_bytes"] == len(decode_envelope(repo_file.read_bytes()).payload)
    assert document["content"]["branches"] == [{"name": "main", "snapshot_index": 0}]
    assert document["content"]["snapshots"][0]["flushed_at"] == "2023-11-14T22:13:20.000000Z"
    update = document["content"]["latest_updates"][0]
    assert update["update_type"] == {"type": "RepoInitializedUpdate"}


def test_text_escapes_what_the_file_says(repo_file: Path, icectl: Icectl) -> None:
    shown = icectl("inspect-file", str(repo_file)).out
    assert "\x1b" not in shown
    assert "1CECHNKREP0F1RSTCMT0" in shown


def test_a_lone_manifest(manifest_file: Path, inspect: Inspect) -> None:
    refs = inspect(manifest_file)["content"]["arrays"][0]["refs"]
    assert (refs["native"], refs["inline"], refs["virtual"], refs["count"]) == (1, 1, 1, 3)


def test_references_are_streamed(manifest_file: Path, icectl: Icectl) -> None:
    outcome = icectl("inspect-file", str(manifest_file), "--refs", "--jsonl")
    native, inline, virtual = map(json.loads, outcome.out.splitlines())
    assert native["chunk_id"] == str(CHUNK)
    assert (native["index"], native["offset"], native["length"]) == ([0, 0], 5, 10)
    assert (inline["kind"], inline["length"]) == ("inline", 6)
    assert virtual["location"] == "s3://bucket/file.nc"
    assert virtual["offset"] == str(2**60)
    assert virtual["checksum_last_modified"] == 1_700_000_000


def test_raw_payload_from_stdin(
    repo_file: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = repo_file.read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert run(["inspect-file", "-", "--raw"], {}) == 0
    assert capsysbinary.readouterr().out == decode_envelope(data).payload


def test_by_name_and_by_id(shared_fixtures: Path, icectl: Icectl, inspect: Inspect) -> None:
    location = str(shared_fixtures / "test-repo-v1")
    for name in ("snapshots/4QF8JA0YPDN51MHSSYVG", "4qf8ja0ypdn51mhssyvg"):
        document = inspect("-r", location, name)
        assert document["path"] == "snapshots/4QF8JA0YPDN51MHSSYVG"
        assert document["content"]["id"] == "4QF8JA0YPDN51MHSSYVG"
    assert icectl("inspect-file", "-r", location, "4QF8JA0YPDN51MHSSYV0").code == 12


def test_every_fixture_is_read_without_a_problem(shared_fixtures: Path, inspect: Inspect) -> None:
    kinds = {"snapshots": "snapshot", "manifests": "manifest", "transactions": "transaction_log"}
    files = [path for path in sorted(shared_fixtures.rglob("*")) if path.is_file()]
    assert files
    for path in files:
        document = inspect(path)
        assert document["problems"] == [], path
        if path.parent.name in kinds:
            assert document["kind"] == kinds[path.parent.name]
        if path.parent.parent.name == "refs":
            assert document["kind"] == "ref"


def test_a_cut_file_shows_where(repo_file: Path, icectl: Icectl) -> None:
    whole = repo_file.read_bytes()
    repo_file.write_bytes(whole[:-3])
    outcome = icectl("inspect-file", str(repo_file))
    assert outcome.code == 13
    assert f"(at byte {len(whole) - 3})" in outcome.err
    assert "kind:" in outcome.out


def test_what_can_be_read_of_a_damaged_file_is_shown(repo_file: Path, icectl: Icectl) -> None:
    info = decode_repo(repo_file.read_bytes())
    payload = bytearray(decode_envelope(repo_file.read_bytes()).payload)
    message = payload.index(info.snapshots[0].message.encode())
    payload[message : message + 2] = b"\xff\xff"
    repo_file.write_bytes(encode_envelope(payload, FileType.REPO_INFO, 2))
    outcome = icectl("inspect-file", str(repo_file), "--json")
    assert outcome.document["content"]["branches"] == [{"name": "main", "snapshot_index": 0}]
    assert outcome.document["content"]["snapshots"][0]["id"] == "1CECHNKREP0F1RSTCMT0"
    assert "SnapshotInfo.message" in outcome.document["problems"][0]
    assert outcome.code == outcome.error["exit_code"] == 13
    assert f"at byte {message}" in outcome.error["message"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["./absent"], 2, "cannot be read"),
        (["absent"], 10, "the file absent does not exist"),
        (["file:///absent"], 14, "absent does not exist"),
        (["--raw", "--json", "-"], 2, "--raw"),
        (["--jsonl", "-"], 2, "--jsonl requires --refs"),
        (["./lone", "--refs"], 2, "only a manifest has references"),
    ],
)
def test_wrong_input(
    words: list[str],
    code: int,
    says: str,
    repo_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    icectl: Icectl,
) -> None:
    monkeypatch.chdir(repo_file.rename(repo_file.with_name("lone")).parent)
    outcome = icectl("inspect-file", *words)
    assert outcome.code == code
    assert says in outcome.err


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
    name: str, data: bytes, says: str, tmp_path: Path, icectl: Icectl
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    outcome = icectl("inspect-file", str(path), "--json")
    assert (outcome.document["kind"], outcome.document["content"]) == ("unknown", {})
    assert says in outcome.document["problems"][0]
    assert says in outcome.error["message"]
    assert outcome.code == icectl("inspect-file", str(path)).code == 13


def test_a_file_in_the_wrong_place(repo_file: Path, tmp_path: Path, icectl: Icectl) -> None:
    path = tmp_path / "snapshots" / ID
    path.parent.mkdir()
    path.write_bytes(repo_file.read_bytes())
    outcome = icectl("inspect-file", str(path), "--json")
    assert outcome.code == 13
    assert "not a valid snapshot file: the content is a repo" in outcome.err
    assert outcome.document["content"]["branches"]


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("chunk", bytes(range(256)), "chunk"),
        (f"chunks/{ID}", b"", "chunk"),
        ("snapshots/notes", b"x", "chunk"),
        ("r/notes.json", b"[]", "chunk"),
        ("refs/tag.x/ref.json.deleted", b"", "ref"),
        ("config.yaml", b"{}\n", "config"),
    ],
)
def test_other_names_promise_nothing(
    name: str, data: bytes, kind: str, tmp_path: Path, inspect: Inspect
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    document = inspect(path)
    assert (document["kind"], document["header"]) == (kind, None)


def test_generations_are_named_as_in_status(
    shared_fixtures: Path, icectl: Icectl, inspect: Inspect
) -> None:
    for name, generation in (("alpha8", "alpha-raw"), ("0.1.0", "alpha-binary")):
        repository = shared_fixtures / f"test-repo-{name}"
        file = next((repository / "snapshots").iterdir())
        status = icectl("status", "-r", str(repository), "--json").document
        assert inspect(file)["generation"] == status["generation"] == generation


@pytest.mark.parametrize("name", ["../x", "/etc/hosts", "snapshots//x", "a/./b"])
def test_a_name_outside_the_repository(name: str, shared_fixtures: Path, icectl: Icectl) -> None:
    outcome = icectl("inspect-file", "-r", str(shared_fixtures / "test-repo-v1"), name)
    assert outcome.code == 2
    assert "is not the name of a file inside the repository" in outcome.err
    assert "hint: " in outcome.err


def test_a_file_that_may_not_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, icectl: Icectl
) -> None:
    def deny(*_arguments: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "stat", deny)
    monkeypatch.setattr(Path, "open", deny)
    outcome = icectl("inspect-file", "repository/repo")
    assert outcome.code == 2
    assert "cannot be read: Permission denied" in outcome.err
