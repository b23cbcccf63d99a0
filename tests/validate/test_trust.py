"""Which sources of virtual chunks are contacted, and what is sent to their servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.command_line import Icectl, environ, icectl  # noqa: F401
from tests.official import ic, zarr
from tests.official.histories import create
from tests.servers.gcs import BUCKET, FORBIDDEN_BUCKET, PRIVATE_BUCKET, TOKEN, GcsServer
from tests.servers.proxy import Faults, fault_proxy
from tests.servers.s3 import S3Server


def write_references(repo: ic.Repository, locations: list[str]) -> None:
    session = repo.writable_session("main")
    root = zarr.open_group(session.store, mode="a")
    shape = (4 * len(locations),)
    root.create_array("v", shape=shape, chunks=(4,), dtype="u1", compressors=None)
    refs = [ic.VirtualChunkSpec([i], one, 0, 4) for i, one in enumerate(locations)]
    assert session.store.set_virtual_refs("v", refs, validate_containers=False) is None
    session.commit("virtual")


def config_with(containers: dict[str, Any]) -> dict[str, Any]:
    return {prefix: ic.VirtualChunkContainer(prefix, store) for prefix, store in containers.items()}


def tokens(faults: Faults) -> list[bytes]:
    return [head for head in faults.heads if TOKEN.encode() in head or b"Bearer" in head]


@pytest.fixture
def google(
    gcs_server: GcsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Faults]]:
    """A recorded Google Cloud Storage, and an account whose token it gives and takes."""
    faults = Faults()
    with fault_proxy(gcs_server.url, faults) as url:
        account = gcs_server.write_service_account(tmp_path)
        account.write_text(
            json.dumps({**json.loads(account.read_text()), "token_uri": f"{url}/token"})
        )
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        monkeypatch.setenv("NO_GCE_CHECK", "true")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        yield url, faults


@pytest.mark.server
def test_a_token_does_not_go_to_the_endpoint_of_another_cloud(
    icectl: Icectl,  # noqa: F811
    moto_server: S3Server,
    google: tuple[str, Faults],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for key, value in moto_server.environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    prefix = uuid4().hex
    own = f"s3://{moto_server.bucket}/"
    repo = ic.Repository.create(
        moto_server.official_storage(prefix),
        config=ic.RepositoryConfig(
            virtual_chunk_containers=config_with(
                {f"gs://{PRIVATE_BUCKET}/": ic.gcs_store(), own: ic.s3_store(region="us-east-1")}
            )
        ),
    )
    repo.save_config()
    write_references(repo, [f"gs://{PRIVATE_BUCKET}/gone.nc", f"{own}{prefix}/repo"])
    amazon = Faults()
    with fault_proxy(moto_server.url, amazon) as endpoint:
        done = icectl(
            *("validate", "-r", f"{own}{prefix}", "--virtual", "--json"),
            *("--storage-option", f"endpoint_url={endpoint}"),
        )
    assert tokens(amazon) == []
    assert not any(b"gone.nc" in head for head in amazon.heads)
    # Google was asked with the token, and the option holds for the other source on S3.
    assert any(b"gone.nc" in head for head in tokens(google[1]))
    assert done.code == 3
    assert [one["code"] for one in done.document["findings"]] == ["ICE0601"]
    assert done.document["checked"]["virtual_sources"] == 2


@pytest.mark.server
@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_token_does_not_go_over_plain_http(
    icectl: Icectl,  # noqa: F811
    google: tuple[str, Faults],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    # Of this machine, yet not by a loopback address.
    url = google[0].replace("127.0.0.1", "0.0.0.0")
    options: tuple[str, ...] = ("--storage-option", f"endpoint_url={url}")
    if how == "variable":
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url.removeprefix("http://"))
        options = ()
    done = icectl("log", "-r", f"gs://{PRIVATE_BUCKET}/x", "--json", *options)
    assert (done.code, done.error["kind"]) == (16, "refused")
    assert google[1].heads == []
    # Without credentials there is nothing to lose.
    anonymous = ("--storage-option", "anonymous=true")
    assert icectl("log", "-r", f"gs://{BUCKET}/x", "--json", *options, *anonymous).code == 10
    assert google[1].heads and tokens(google[1]) == []
    for local in ("127.0.0.1", "localhost"):
        url = google[0].replace("127.0.0.1", local)
        option = ("--storage-option", f"endpoint_url={url}")
        assert icectl("log", "-r", f"gs://{PRIVATE_BUCKET}/x", "--json", *option).code == 10


@pytest.mark.server
def test_one_client_for_all_buckets(
    icectl: Icectl,  # noqa: F811
    google: tuple[str, Faults],
    tmp_path: Path,
) -> None:
    names = (BUCKET, FORBIDDEN_BUCKET, PRIVATE_BUCKET, "other")
    containers = config_with({f"gs://{name}/": ic.gcs_store() for name in names})
    repo = create(tmp_path / "repo", virtual_chunk_containers=containers)
    write_references(repo, [f"gs://{name}/gone.nc" for name in names])
    done = icectl("validate", "-r", str(tmp_path / "repo"), "--virtual", "--json")
    assert done.code == 3
    assert [one["code"] for one in done.document["findings"]] == [
        *("ICE0601", "ICE0601"),
        *("ICE0605", "ICE0605"),
    ]
    # Each client has its own token.
    assert len([head for head in google[1].heads if head.startswith(b"POST /token")]) == 1


@pytest.mark.server
def test_sources_without_a_container_are_not_contacted(
    icectl: Icectl,  # noqa: F811
    google: tuple[str, Faults],
    tmp_path: Path,
) -> None:
    repo = create(tmp_path / "repo")
    write_references(repo, [f"gs://{BUCKET}/a/gone.nc", f"gs://{BUCKET}/ab/gone.nc"])
    command = ("validate", "-r", str(tmp_path / "repo"), "--virtual", "--json")
    done = icectl(*command)
    assert google[1].heads == []
    assert [one["code"] for one in done.document["findings"]] == ["ICE0604"]
    checked = done.document["checked"]
    assert (checked["virtual_sources"], checked["virtual_sources_skipped"]) == (0, 2)
    assert len(done.document["notes"]) == 1
    done = icectl(*command, "--allow-source", f"gs://{BUCKET}/a")
    assert [one["code"] for one in done.document["findings"]] == ["ICE0601", "ICE0604"]
    checked = done.document["checked"]
    assert (checked["virtual_sources"], checked["virtual_sources_skipped"]) == (1, 1)
    assert not any(b"ab%2Fgone.nc" in head for head in google[1].heads)


def test_files_of_this_machine_need_consent(icectl: Icectl, tmp_path: Path) -> None:  # noqa: F811
    """A container is no consent: it was written by whoever wrote the references."""
    prefix = f"file://{tmp_path}/data/"
    (tmp_path / "data").mkdir()
    containers = config_with({prefix: ic.local_filesystem_store(str(tmp_path / "data"))})
    repo = create(tmp_path / "repo", virtual_chunk_containers=containers)
    write_references(repo, [f"{prefix}gone.nc", f"{prefix}gone%20too.nc"])
    command = ("validate", "-r", str(tmp_path / "repo"), "--virtual", "--json")
    done = icectl(*command)
    checked = done.document["checked"]
    assert (done.code, done.document["findings"]) == (0, [])
    assert (checked["virtual_sources"], checked["virtual_sources_skipped"]) == (0, 2)
    assert len(done.document["notes"]) == 1
    assert "Sound" not in icectl(*command[:-1]).out
    for allowed in (prefix, prefix.rstrip("/"), "file:///"):
        done = icectl(*command, "--allow-source", allowed)
        assert [one["code"] for one in done.document["findings"]] == ["ICE0601", "ICE0601"]
        assert done.document["checked"]["virtual_sources_skipped"] == 0
    done = icectl(*command, "--allow-source", f"{prefix}gone.nc", "--allow-source", "s3://b/x")
    assert [one["code"] for one in done.document["findings"]] == ["ICE0601"]


@pytest.mark.parametrize(
    "words", [["--allow-source", "file:///x"], ["--virtual", "--allow-source", "x"]]
)
def test_misplaced_consent(icectl: Icectl, tmp_path: Path, words: list[str]) -> None:  # noqa: F811
    create(tmp_path / "repo")
    assert icectl("validate", "-r", str(tmp_path / "repo"), *words).code == 2
