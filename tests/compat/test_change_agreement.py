"""After each changing command the official package sees the change and commits on top."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Icectl, Outcome
from tests.servers.gcs import GcsServer
from tests.servers.s3 import S3Server

official = pytest.importorskip("tests.official")
ic = official.ic


@dataclass
class Place:
    """One repository as icectl reaches it and as the official package does."""

    location: str
    storage: Callable[[], Any]
    icectl: Icectl

    def run(self, *arguments: str) -> Outcome:
        return self.icectl(*arguments, "-r", self.location)

    def change(self, *arguments: str) -> Any:
        outcome = self.run(*arguments, "--json")
        assert outcome.code == 0, outcome.err
        return outcome.document

    def theirs(self) -> Any:
        return official.open_official(self.storage())

    def commit(self, branch: str = "main") -> str:
        """The official package commits on top, and icectl sees it."""
        import zarr

        session = self.theirs().writable_session(branch)
        zarr.open_group(session.store, mode="a").attrs["branch"] = branch
        snapshot: str = session.commit("theirs", allow_empty=True)
        newest = self.change("log", branch, "-n", "1")["snapshots"][0]
        assert (newest["id"], newest["message"]) == (snapshot, "theirs")
        return snapshot

    def logs_agree(self) -> list[str]:
        """Both walk the same ops log; our newest kinds."""
        updates = self.change("ops-log")["updates"]
        assert [update["backup_path"] for update in updates] == [
            update.backup_path for update in self.theirs().ops_log()
        ]
        return [update["kind"] for update in updates]


def local(path: Path, icectl: Icectl) -> Place:
    location = str(path / "repository")
    return Place(location, lambda: ic.local_filesystem_storage(location), icectl)


def on_server(scheme: str, server: S3Server | GcsServer, prefix: str, icectl: Icectl) -> Place:
    location = f"{scheme}://{server.bucket}/{prefix}"
    return Place(location, lambda: server.official_storage(prefix), icectl)


@pytest.fixture
def enter(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Credentials are read from the process's own environment, by the storage's library."""

    def enter(server: S3Server | GcsServer) -> None:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)

    return enter


def change_refs(place: Place, spec_version: int) -> None:
    made = place.change("init", "--spec-version", str(spec_version))
    assert made["spec_version"] == spec_version
    assert place.theirs().spec_version == spec_version
    first = made["snapshot_id"]
    assert place.theirs().lookup_branch("main") == first
    second = place.commit()

    created = place.change("branch", "create", "dev", "main~1")
    assert created == {"branch": "dev", "snapshot_id": first, "previous_snapshot_id": None}
    assert place.theirs().lookup_branch("dev") == first
    third = place.commit("dev")

    moved = place.change("branch", "reset", "dev", "main", "--expect", third)
    assert moved == {"branch": "dev", "snapshot_id": second, "previous_snapshot_id": third}
    assert place.theirs().lookup_branch("dev") == second
    assert place.run("branch", "reset", "dev", first, "--expect", third).code in (11, 12)
    assert place.theirs().lookup_branch("dev") == second

    assert place.change("tag", "create", "v1", "dev") == {
        "tag": "v1",
        "snapshot_id": second,
        "previous_snapshot_id": None,
    }
    assert place.theirs().lookup_tag("v1") == second
    place.theirs().create_tag("theirs", second)
    assert place.change("tag", "delete", "theirs") == {
        "tag": "theirs",
        "snapshot_id": second,
        "previous_snapshot_id": second,
    }
    assert place.theirs().list_tags() == {"v1"}
    assert place.change("tag", "list")["deleted_tags"] == ["theirs"]
    with pytest.raises(ic.IcechunkError):
        place.theirs().create_tag("theirs", second)
    assert place.run("tag", "create", "theirs").code == 16

    gone = place.change("branch", "delete", "dev", "--expect", "v1")
    assert gone == {"branch": "dev", "snapshot_id": None, "previous_snapshot_id": second}
    assert place.theirs().list_branches() == {"main"}
    place.commit()


def change_settings(place: Place) -> None:
    place.change("config", "set", "inline_chunk_threshold_bytes", "77")
    place.change("config", "set", "compression.level", "5")
    config = place.theirs().config
    assert (config.inline_chunk_threshold_bytes, config.compression.level) == (77, 5)
    place.commit()

    place.change("metadata", "set", "owner", "ocean team")
    place.change("metadata", "set", "list", '[1, {"x": null}]')
    assert place.theirs().get_metadata() == {"owner": "ocean team", "list": [1, {"x": None}]}
    place.theirs().update_metadata({"theirs": 1})
    assert place.change("metadata", "unset", "owner", "list") == {"unset": ["owner", "list"]}
    assert place.change("metadata", "get") == {"metadata": {"theirs": 1}}
    assert place.theirs().get_metadata() == {"theirs": 1}

    assert place.change("flags", "set", "create_tag", "off")["enabled"] is False
    with pytest.raises(ic.IcechunkError):
        place.theirs().create_tag("no", place.theirs().lookup_branch("main"))
    assert place.run("tag", "create", "no").code == 16
    place.change("flags", "set", "4", "default")
    place.theirs().create_tag("yes", place.theirs().lookup_branch("main"))

    status = place.change("status", "set", "read-only", "--reason", "moving house")
    assert (status["availability"], status["reason"]) == ("read_only", "moving house")
    assert place.theirs().get_status().limited_availability_reason == "moving house"
    with pytest.raises(ic.IcechunkError):
        place.theirs().create_tag("no", place.theirs().lookup_branch("main"))
    outcome = place.run("tag", "create", "no")
    assert outcome.code == 16
    assert "moving house" in outcome.err
    assert place.change("status", "set", "online")["availability"] == "online"
    place.commit()
    assert place.logs_agree()[:4] == [
        "new_commit",
        "repo_status_changed",
        "repo_status_changed",
        "tag_created",
    ]


@pytest.mark.parametrize("spec_version", [1, 2])
def test_refs_on_local_disk(tmp_path: Path, icectl: Icectl, spec_version: int) -> None:
    place = local(tmp_path, icectl)
    change_refs(place, spec_version)
    if spec_version == 2:
        assert place.logs_agree()[:2] == ["new_commit", "branch_deleted"]


def test_settings_on_local_disk(tmp_path: Path, icectl: Icectl) -> None:
    place = local(tmp_path, icectl)
    place.change("init")
    change_settings(place)


def test_configuration_of_version_1(tmp_path: Path, icectl: Icectl) -> None:
    place = local(tmp_path, icectl)
    place.change("init", "--spec-version", "1", "--config", "compression.level=4")
    assert place.theirs().config.compression.level == 4
    place.change("config", "set", "inline_chunk_threshold_bytes", "77")
    config = place.theirs().config
    assert (config.inline_chunk_threshold_bytes, config.compression.level) == (77, 4)
    assert place.change("config", "get", "compression.level")["value"] == 4
    place.commit()


def test_init_with_everything(tmp_path: Path, icectl: Icectl) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "inline_chunk_threshold_bytes: 9\n"
        "virtual_chunk_containers:\n  data:\n    name: data\n    url_prefix: s3://data/\n"
        "    store: !s3\n      region: us-east-1\n      anonymous: true\n      allow_http: false\n"
        "      force_path_style: false\n      network_stream_timeout_seconds: 60\n"
        "      requester_pays: false\n"
    )
    place = local(tmp_path, icectl)
    place.change(
        "init", "--config-file", str(file), "--config", "compression.level=2",
        "--metadata", "owner=me", "--metadata", "n=3",
    )  # fmt: skip
    theirs = place.theirs()
    assert theirs.get_metadata() == {"owner": "me", "n": 3}
    stored = ic.Repository.fetch_config(place.storage())
    assert (stored.inline_chunk_threshold_bytes, stored.compression.level) == (9, 2)
    assert [c.url_prefix for c in stored.virtual_chunk_containers.values()] == ["s3://data/"]
    place.commit()


@pytest.mark.server
@pytest.mark.parametrize("spec_version", [1, 2])
@pytest.mark.parametrize("server", ["seaweedfs_server", "moto_server"])
def test_on_s3(
    request: pytest.FixtureRequest,
    enter: Callable[[Any], None],
    icectl: Icectl,
    server: str,
    spec_version: int,
) -> None:
    running: S3Server = request.getfixturevalue(server)
    enter(running)
    place = on_server("s3", running, f"cli-{spec_version}", icectl)
    change_refs(place, spec_version)
    if spec_version == 2:
        change_settings(place)


@pytest.mark.server
@pytest.mark.parametrize("spec_version", [1, 2])
def test_on_gcs(
    gcs_server: GcsServer, enter: Callable[[Any], None], icectl: Icectl, spec_version: int
) -> None:
    enter(gcs_server)
    place = on_server("gs", gcs_server, f"cli-{spec_version}", icectl)
    change_refs(place, spec_version)
    if spec_version == 2:
        change_settings(place)


def test_official_clients_do_not_know_offline(tmp_path: Path, icectl: Icectl) -> None:
    """What the help and the warning say; when this fails, both may be dropped."""
    place = local(tmp_path, icectl)
    assert place.run("init").code == 0
    outcome = place.run("status", "set", "offline", "--quiet")
    assert outcome.code == 0
    assert outcome.err.startswith("icectl: warning: official clients ignore offline")
    place.commit()
    assert "online" in place.run("status").out
    assert place.run("status", "set", "read-only").err == ""
