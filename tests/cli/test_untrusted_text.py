"""Whatever a writer put into the repository: a terminal never acts on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from icectl.format.repo import encode_repo
from icectl.format.snapshot import decode_snapshot, encode_snapshot
from icectl.format.values import encode_flexbuffers, encode_metadata
from icectl.model.repo import BranchCreatedUpdate, Ref, RepoStatus, TagCreatedUpdate, Update
from icectl.model.snapshot import ArrayNodeData, NodeSnapshot
from tests.cli.conftest import Icectl
from tests.cli.small_repository import START, repo_info, sid, write_small_repository

EVIL = "evil\x1b]0;title\x07\x1b[2J\r\n\u202e\x9b31m"
ACTING = set("\x1b\x07\r\x9b\u202e")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = write_small_repository(tmp_path_factory.mktemp("evil") / "repository")
    info = repo_info()
    edited = replace(
        info,
        branches=(*info.branches, Ref(EVIL, sid(3))),
        tags=(*info.tags, Ref(EVIL, sid(3))),
        deleted_tags=(EVIL + "2",),
        snapshots=tuple(replace(snapshot, message=EVIL) for snapshot in info.snapshots),
        status=RepoStatus(1, START, EVIL),
        metadata=encode_metadata({"evil": EVIL, "more\x1b": [EVIL, {EVIL[:4] + "\x9b": 1}]}, 2),
        config=encode_flexbuffers({"storage": {"storage_class": EVIL}}),
        latest_updates=(
            Update(TagCreatedUpdate(EVIL), START + 10**9),
            Update(BranchCreatedUpdate(EVIL), START + 10**9 - 1, EVIL.replace("\n", "")),
            *info.latest_updates[1:],
        ),
        repo_before_updates="missing\x1b[2J",
    )
    (directory / "repo").write_bytes(encode_repo(edited))
    path = directory / "snapshots" / str(sid(3))
    snapshot = decode_snapshot(path.read_bytes())
    nodes = tuple(_evil(node) if node.path == "/b/t" else node for node in snapshot.nodes)
    path.write_bytes(encode_snapshot(replace(snapshot, nodes=nodes)))
    return directory


def _evil(node: NodeSnapshot) -> NodeSnapshot:
    assert isinstance(node.node_data, ArrayNodeData)
    return replace(
        node,
        path=f"/b/{EVIL}",
        user_data=node.user_data.replace(b"float32", b"\\u001b[2J"),
        node_data=replace(node.node_data, dimension_names=(EVIL, None)),
    )


@pytest.mark.parametrize(
    "call",
    [
        "log", "log --oneline", "log --all --graph", "show", "ls", "ls main / --tree",
        "branch list", "tag list", "ops-log", "status", "config get", "metadata get",
        "metadata get evil", "config get storage.storage_class", "log nothing", "ls main /b/evil",
        "branch create new", "log --json", "ls --json", "ops-log --json", "metadata get --json",
    ],
)  # fmt: skip
def test_nothing_acts_on_the_terminal(icectl: Icectl, repository: Path, call: str) -> None:
    outcome = icectl(*call.split(), "-r", str(repository))
    assert outcome.code != 70
    assert "evil" in outcome.out + outcome.err or call in ("log nothing", "ls main /b/evil")
    assert ACTING & set(outcome.out + outcome.err) == set()


def test_refs_with_such_names_can_still_be_used(icectl: Icectl, repository: Path) -> None:
    outcome = icectl("log", f"branch:{EVIL}", "-n", "1", "--json", "-r", str(repository))
    assert outcome.document["snapshots"][0]["id"] == str(sid(3))
