"""The zoo has what its name promises; tests that go through it rely on that."""

from __future__ import annotations

from pathlib import Path

import pytest

from icectl.format.manifest import decode_manifest
from icectl.format.repo import decode_repo
from icectl.format.snapshot import decode_snapshot
from icectl.model.manifest import RefKind
from icectl.model.snapshot import ArrayNodeData
from tests.official import build_zoo, built, ic, official_report, random_history, read_everything


@pytest.fixture(scope="module", params=[1, 2])
def spec_version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def zoo(spec_version: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, build_zoo, spec_version)


def test_every_kind_of_reference(zoo: Path, spec_version: int) -> None:
    manifests = [decode_manifest(path.read_bytes()) for path in (zoo / "manifests").iterdir()]
    refs = [array.refs for manifest in manifests for array in manifest.arrays]
    kinds = {RefKind(kind) for ref in refs for kind in ref.kind.tolist()}
    compressed = {RefKind.VIRTUAL_COMPRESSED} if spec_version == 2 else set()
    assert kinds == {RefKind.NATIVE, RefKind.INLINE, RefKind.VIRTUAL} | compressed
    assert any(ref.checksum_etag is not None for ref in refs)
    assert any(ref.checksum_last_modified is not None for ref in refs)


def test_every_shape_of_array(zoo: Path) -> None:
    nodes = [
        node
        for path in (zoo / "snapshots").iterdir()
        for node in decode_snapshot(path.read_bytes()).nodes
    ]
    arrays = [node.node_data for node in nodes if isinstance(node.node_data, ArrayNodeData)]
    assert {0, 1, 2, 5} <= {len(array.array_shape) for array in arrays}
    assert any(0 in array.array_shape for array in arrays)
    assert any(len(array.manifests) > 10 for array in arrays), "a split array"
    assert any(array.dimension_names for array in arrays)
    assert any(not node.path.isascii() for node in nodes)


def test_the_history_of_spec_version_2(tmp_path_factory: pytest.TempPathFactory) -> None:
    zoo = built(tmp_path_factory, build_zoo, 2)
    report = official_report(zoo)
    assert {update["kind"] for update in report["ops_log"]} == {
        "RepoInitialized",
        "ConfigChanged",
        "MetadataChanged",
        "TagCreated",
        "TagDeleted",
        "BranchCreated",
        "BranchDeleted",
        "BranchReset",
        "NewCommit",
        "CommitAmended",
        "NewDetachedSnapshot",
        "ExpirationRan",
        "FeatureFlagChanged",
        "RepoStatusChanged",
    }
    info = decode_repo((zoo / "repo").read_bytes())
    assert len(info.latest_updates) == 12 and info.repo_before_updates, "an overflown ops log"
    assert any(entry.pruned_ancestor_tx_logs for entry in info.snapshots)
    assert info.enabled_feature_flags and info.disabled_feature_flags and info.deleted_tags


def test_on_any_storage(spec_version: int, zoo: Path, tmp_path: Path) -> None:
    repo = build_zoo(ic.in_memory_storage(), spec_version, source=tmp_path / "virtual")
    ours, on_disk = (
        read_everything(repo),
        read_everything(ic.Repository.open(ic.local_filesystem_storage(str(zoo)))),
    )
    assert len(ours["snapshots"]) == len(on_disk["snapshots"])
    assert ours["branches"].keys() == on_disk["branches"].keys()


def test_a_random_history_follows_its_seed(spec_version: int, tmp_path: Path) -> None:
    def steps(name: str, seed: int) -> list[str]:
        return [entry["step"] for entry in random_history(tmp_path / name, seed, 12, spec_version)]

    assert steps("one", 3) == steps("same", 3) != steps("other", 4)
