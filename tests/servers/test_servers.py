"""The servers of the tests do what the tests believe of them."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from icectl.storage.open import open_storage
from tests.servers.gcs import GcsServer

pytestmark = pytest.mark.server


@pytest.mark.parametrize("name", ["gcs_server", "seaweedfs_server", "moto_server"])
def test_the_official_package_and_ours_take_turns(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    icechunk = pytest.importorskip("icechunk")
    zarr = pytest.importorskip("zarr")
    server = request.getfixturevalue(name)
    storage = server.official_storage("official")
    repository = icechunk.Repository.create(storage)
    session = repository.writable_session("main")
    array = zarr.create_array(session.store, name="a", shape=(4,), chunks=(2,), dtype="i4")
    array[:] = [1, 2, 3, 4]
    session.commit("first")
    repository.create_branch("other", session.snapshot_id)

    for key, value in server.environment.items():
        monkeypatch.setenv(key, value)
    ours = open_storage(f"{'gs' if name == 'gcs_server' else 's3'}://{server.bucket}/official")
    old = ours.read_versioned("repo")
    ours.put_if_match("repo", old.data, old.version)
    repository = icechunk.Repository.open(storage)
    assert {"main", "other"} == set(repository.list_branches())
    repository.delete_branch("other")
    assert ours.read_versioned("repo").data != old.data


def test_the_fake_gcs_refuses_a_stale_xml_put(gcs_server: GcsServer) -> None:
    def put(generation: int) -> str:
        request = urllib.request.Request(
            f"{gcs_server.url}/{gcs_server.bucket}/stale",
            data=b"x",
            method="PUT",
            headers={"x-goog-if-generation-match": str(generation)},
        )
        with urllib.request.urlopen(request) as response:
            return str(response.headers["x-goog-generation"])

    generation = put(0)
    put(int(generation))
    for stale in (0, int(generation)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            put(stale)
        assert refused.value.code == 412
