"""The official package opens repositories whose every metadata file was decoded and encoded
again by us, reads the same from them, and commits on top."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from icectl.format import repo
from icectl.format.manifest import decode_manifest, encode_manifest
from icectl.format.repo import decode_repo, encode_repo
from icectl.format.snapshot import decode_snapshot, encode_snapshot
from icectl.format.transaction_log import decode_transaction_log, encode_transaction_log
from tests.official import copied, official_report, open_official, read_everything
from tests.official.histories import commit, create

REPO_FILES = ("repo", "overwritten/repo.*")
PATTERNS = (*REPO_FILES, "snapshots/*", "manifests/*", "transactions/*")


def rewrite(repository: Path) -> None:
    """Each metadata file decoded and encoded again.

    The official reader fetches exactly the bytes that the snapshot says a manifest has, so the
    sizes in the snapshots follow the rewritten manifests.
    """
    sizes = {}
    for path in repository.glob("manifests/*"):
        manifest = decode_manifest(path.read_bytes())
        sizes[manifest.id] = replace_file(path, encode_manifest(manifest))
    for path in repository.glob("snapshots/*"):
        snapshot = decode_snapshot(path.read_bytes())
        changed: dict[str, Any] = {
            name: tuple(
                dataclasses.replace(info, size_bytes=sizes[info.id])
                for info in getattr(snapshot, name)
            )
            for name in ("manifest_files", "manifest_files_v2")
            if getattr(snapshot, name) is not None
        }
        replace_file(path, encode_snapshot(dataclasses.replace(snapshot, **changed)))
    for path in repository.glob("transactions/*"):
        replace_file(path, encode_transaction_log(decode_transaction_log(path.read_bytes())))
    for pattern in REPO_FILES:
        for path in repository.glob(pattern):
            replace_file(path, encode_repo(decode_repo(path.read_bytes())))


def replace_file(path: Path, data: bytes) -> int:
    """Replaced, not written through: copies of the shared fixtures are read-only."""
    path.unlink()
    return path.write_bytes(data)


def without_writer(report: dict[str, Any]) -> dict[str, Any]:
    """The report without what names the writer or the encoder's own layout."""
    plain: dict[str, Any] = json.loads(json.dumps(report, sort_keys=True))

    def strip(value: Any) -> None:
        if isinstance(value, dict):
            for name in ("written_by", "app_name", "app_version", "size_bytes"):
                value.pop(name, None)
            for item in value.values():
                strip(item)
        elif isinstance(value, list):
            for item in value:
                strip(item)

    strip(plain)
    return plain


@pytest.fixture(params=["tables", "columns"])
def rewritten(
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Path:
    """The snapshots of `repo` are written one by one, or as columns."""
    monkeypatch.setattr(repo, "FEW_SNAPSHOTS", 10**9 if request.param == "tables" else 0)
    decode_repo.cache_clear()
    path = copied(repository, tmp_path / "rewritten")
    rewrite(path)
    return path


def test_reads_the_same(rewritten: Path, report: dict[str, Any], content: dict[str, Any]) -> None:
    assert read_everything(open_official(rewritten)) == content
    assert without_writer(official_report(rewritten)) == without_writer(report)


def test_commits_on_top(rewritten: Path, content: dict[str, Any]) -> None:
    repo = open_official(rewritten)
    before = repo.lookup_branch("main")
    with commit(repo, "on top of what icectl wrote") as root:
        root.attrs["icectl"] = "was here"
        root.create_array("on top", shape=(4,), chunks=(2,), dtype="i4")[:] = 5
    again = open_official(rewritten)
    assert [info.id for info in again.ancestry(branch="main")][1] == before
    after = read_everything(again)
    for snapshot, keys in content["snapshots"].items():
        assert after["snapshots"][snapshot] == keys
    diff = again.diff(from_snapshot_id=before, to_branch="main")
    assert diff.new_arrays == {"/on top"}


def test_rewriting_twice_changes_nothing(rewritten: Path, tmp_path: Path) -> None:
    twice = copied(rewritten, tmp_path / "twice")
    rewrite(twice)
    for pattern in PATTERNS:
        for path in rewritten.glob(pattern):
            assert (twice / path.relative_to(rewritten)).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("spec_version", [1, 2])
def test_official_finds_each_node_of_a_rewritten_snapshot(
    spec_version: int, tmp_path: Path
) -> None:
    """The official reader searches nodes by halves, in the order of the paths' bytes.

    That is not the component-wise order of the specification: in that order it loses nodes.
    """
    paths = ["a", "a/b", "a/b/c", "a/b-c", "a-b", "a b", "a!", "a!/q", "a.x", "ab", "é", "z"]
    repo = create(tmp_path / "repo", spec_version)
    with commit(repo, "paths whose two orders differ") as root:
        for path in paths:
            root.require_group(path).attrs["path"] = path
    rewrite(tmp_path / "repo")
    with commit(open_official(tmp_path / "repo"), "read") as root:
        assert {path: root[path].attrs["path"] for path in paths if path in root} == {
            path: path for path in paths
        }
