"""Lost responses, throttling, refusals, and servers that are not there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from icectl.errors import (
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    Remedy,
    StorageError,
    ThrottledError,
)
from icectl.storage.contract import Storage
from icectl.storage.open import open_storage
from tests.servers.gcs import FORBIDDEN_BUCKET, PRIVATE_BUCKET, GcsServer
from tests.servers.proxy import Faults
from tests.servers.s3 import S3Server
from tests.storage.conftest import Backend, backends

pytestmark = pytest.mark.server
Proxied = tuple[Storage, Faults]


class TestLostResponses:
    def test_our_own_write_is_no_conflict(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        faults.lose_one_in = 2
        version = storage.put_if_absent("repo", b"0")
        for number in range(1, 11):
            version = storage.put_if_match("repo", b"%d" % number, version)
        assert faults.lost >= 5
        assert storage.read_versioned("repo").version == version
        assert storage.read("repo") == b"10"

    def test_creating_is_no_conflict_either(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        faults.lose_one_in = 2
        for number in range(10):
            storage.put_if_absent(f"chunks/{number}", b"x")
        assert faults.lost >= 5

    def test_a_real_conflict_stays_one(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        version = storage.put_if_absent("repo", b"1")
        storage.put_if_match("repo", b"2", version)
        faults.lose_one_in = 2
        for _ in range(4):
            with pytest.raises(PreconditionFailedError):
                storage.put_if_match("repo", b"3", version)
            with pytest.raises(PreconditionFailedError):
                storage.put_if_absent("repo", b"4")
        assert storage.read("repo") == b"2"

    def test_writers_at_the_same_time(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        storage.put_if_absent("counter", b"")
        faults.lose_one_in = 5

        def append(writer: int) -> None:
            for turn in range(5):
                entry = b"%d.%d" % (writer, turn)
                while True:
                    old = storage.read_versioned("counter")
                    # What the contract asks of a caller: look for its own entry first.
                    if entry in old.data.split():
                        break
                    try:
                        storage.put_if_match("counter", old.data + entry + b" ", old.version)
                    except PreconditionFailedError:
                        continue
                    break

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(append, range(8)))
        assert faults.lost > 0
        assert Counter(storage.read("counter").split()) == Counter(
            b"%d.%d" % (writer, turn) for writer in range(8) for turn in range(5)
        )

    def test_reads_and_lists_are_tried_again(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        storage.put_if_absent("a", b"1")
        faults.methods, faults.lose_one_in = frozenset({"GET", "HEAD", "DELETE", "POST"}), 3
        for _ in range(6):
            assert storage.read("a") == b"1"
            assert [info.path for info in storage.list("")] == ["a"]
            assert storage.info("a").size == 1
        assert list(storage.delete_many(["a"])) == [("a", None)]
        assert faults.lost >= 5

    def test_the_probe_survives_them(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        faults.lose_one_in = 2
        storage.ensure_conditional_writes()
        assert faults.lost > 0


class TestThrottling:
    def test_slow_down_is_waited_out(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        faults.methods, faults.refuse_one_in = frozenset({"PUT", "POST", "GET", "DELETE"}), 2
        storage.put_if_absent("a", b"1")
        assert storage.read("a") == b"1"
        assert list(storage.delete_many(["a"])) == [("a", None)]
        assert faults.refused >= 2

    def test_deletes_begin_with_one_request(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        faults.methods, faults.delay = frozenset({"POST", "DELETE"}), 0.5
        paths = [f"none/{number}" for number in range(20 * storage.deletes_per_request)]
        assert dict(storage.delete_many(paths)) == dict.fromkeys(paths)
        assert faults.in_flight[0] == 1 and max(faults.in_flight[:3]) <= 2
        assert max(faults.in_flight) > 3

    def test_deletes_slow_down(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        faults.methods, faults.delay = frozenset({"POST", "DELETE"}), 0.05
        faults.refuse_above = 2
        paths = [f"none/{number}" for number in range(20 * storage.deletes_per_request)]
        assert dict(storage.delete_many(paths)) == dict.fromkeys(paths)
        assert faults.refused > 0 and max(faults.in_flight) < 8

    def test_deletes_that_stay_throttled(
        self, behind_proxy: Proxied, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("icectl.storage.retry.FIRST_DELAY", 0.001)
        storage, faults = behind_proxy
        faults.methods, faults.refuse_one_in = frozenset({"POST", "DELETE"}), 1
        paths = [f"none/{number}" for number in range(20 * storage.deletes_per_request)]
        outcome = dict(storage.delete_many(paths))
        assert outcome.keys() == {*paths}
        assert all(isinstance(error, ThrottledError) for error in outcome.values())
        assert faults.refused <= 2 * 8  # attempts of each request; all others are not sent

    def test_without_end_it_fails_with_the_reason(
        self, behind_proxy: Proxied, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("icectl.storage.retry.FIRST_DELAY", 0.001)
        storage, faults = behind_proxy
        faults.methods, faults.refuse_one_in = frozenset({"GET"}), 1
        with pytest.raises(StorageError, match="503") as caught:
            storage.read("a")
        assert caught.value.exit_code == 14
        assert faults.refused == 8

    def test_a_refusal_is_final_at_once(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        sent = len(faults.heads)
        with pytest.raises(ObjectNotFoundError):
            storage.read("missing")
        assert len(faults.heads) == sent + 1
        assert faults.lost == faults.refused == 0


class TestPermissions:
    def test_a_reader_cannot_write(
        self, seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        location = f"s3://{seaweedfs_server.bucket}/permissions"
        for key, value in seaweedfs_server.environment.items():
            monkeypatch.setenv(key, value)
        open_storage(location).put_if_absent("a", b"1")
        for key, value in seaweedfs_server.reader_environment.items():
            monkeypatch.setenv(key, value)
        reader = open_storage(location)
        assert reader.read("a") == b"1"
        for refused in (
            lambda: reader.put_if_absent("b", b"1"),
            reader.ensure_conditional_writes,
        ):
            with pytest.raises(StorageError, match="refused access to") as caught:
                refused()
            assert caught.value.exit_code == 14
            assert caught.value.hint == Remedy("check-aws-credentials")
        outcome = dict(reader.delete_many(["a", "b"]))
        assert all(isinstance(error, StorageError) for error in outcome.values())
        assert reader.read("a") == b"1"

    def test_a_wrong_secret_is_not_repeated(
        self, seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for key, value in seaweedfs_server.environment.items():
            monkeypatch.setenv(key, value)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "my-wrong-secret")
        with pytest.raises(StorageError, match="refused access") as caught:
            open_storage(f"s3://{seaweedfs_server.bucket}/x").read("a")
        assert "my-wrong-secret" not in f"{caught.value} {caught.value.hint} {caught.value!r}"

    def test_no_credentials(
        self, seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for key, value in seaweedfs_server.environment.items():
            monkeypatch.setenv(key, value)
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        location = f"s3://{seaweedfs_server.bucket}/x"
        with pytest.raises(StorageError, match="no credentials found"):
            open_storage(location).read("a")
        with pytest.raises(StorageError, match="refused access"):
            open_storage(location, {"anonymous": "true"}).read("a")

    def test_a_profile(
        self, seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        environment = seaweedfs_server.environment
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        credentials = tmp_path / "credentials"
        credentials.write_text(
            f"[keeper]\naws_access_key_id={environment['AWS_ACCESS_KEY_ID']}\n"
            f"aws_secret_access_key={environment['AWS_SECRET_ACCESS_KEY']}\n"
        )
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
        location = f"s3://{seaweedfs_server.bucket}/profile"
        assert list(open_storage(location, {"profile": "keeper"}).list("")) == []
        monkeypatch.setenv("AWS_PROFILE", "keeper")
        assert list(open_storage(location).list("")) == []
        with pytest.raises(StorageError, match="profile"):
            list(open_storage(location, {"profile": "nobody"}).list(""))

    def test_a_forbidden_gcs_bucket(
        self, gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for key, value in gcs_server.environment.items():
            monkeypatch.setenv(key, value)
        storage = open_storage(f"gs://{FORBIDDEN_BUCKET}/x")
        with pytest.raises(StorageError, match="refused access to a") as caught:
            storage.read("a")
        assert caught.value.hint == Remedy("check-google-credentials")
        with pytest.raises(StorageError, match="refused access"):
            storage.ensure_conditional_writes()

    def test_a_service_account(
        self, gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        for key, value in gcs_server.environment.items():
            monkeypatch.setenv(key, value)
        location = f"gs://{PRIVATE_BUCKET}/x"
        with pytest.raises(StorageError, match=r"refused access to a \(Unauthorized\)"):
            open_storage(location).read("a")
        key_file = gcs_server.write_service_account(tmp_path)
        assert list(open_storage(location, {"credentials_file": str(key_file)}).list("")) == []
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file))
        assert list(open_storage(location).list("")) == []

    def test_each_failed_delete_of_one_request_is_told(
        self, seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        location = f"s3://{seaweedfs_server.bucket}/limited"
        for key, value in seaweedfs_server.environment.items():
            monkeypatch.setenv(key, value)
        keeper = open_storage(location)
        for path in ("allowed1", "held", "allowed2"):
            keeper.put_if_absent(path, b"1")
        for key, value in seaweedfs_server.limited_environment.items():
            monkeypatch.setenv(key, value)
        outcome = dict(open_storage(location).delete_many(["allowed1", "held", "allowed2"]))
        assert outcome["allowed1"] is None and outcome["allowed2"] is None
        assert "refused access to held" in str(outcome["held"])
        assert [info.path for info in keeper.list("")] == ["held"]

    def test_each_failed_delete_is_told(
        self, gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for key, value in gcs_server.environment.items():
            monkeypatch.setenv(key, value)
        storage = open_storage(f"gs://{gcs_server.bucket}/held")
        for path in ("a", "undeletable", "b"):
            storage.put_if_absent(path, b"1")
        outcome = dict(storage.delete_many(["a", "undeletable", "b"]))
        assert outcome["a"] is None and outcome["b"] is None
        assert "refused access to undeletable" in str(outcome["undeletable"])


class TestWrongPlaces:
    @pytest.mark.parametrize("scheme", ["s3", "gs"])
    def test_no_server(self, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_GCE_CHECK", "true")
        monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
        options = {"endpoint_url": "http://127.0.0.1:1", "anonymous": "true"}
        began = time.monotonic()
        with pytest.raises(
            StorageError, match=r"no connection to the server of .*://bucket: connection refused"
        ) as caught:
            open_storage(f"{scheme}://bucket/prefix", options).read("repo")
        assert time.monotonic() - began < 60  # the libraries would try for minutes
        assert caught.value.exit_code == 14 and caught.value.hint

    @pytest.mark.parametrize("name", backends("seaweedfs", "moto", "gcs"))
    def test_no_bucket(self, name: str, make_backend: Callable[[str], Backend]) -> None:
        scheme = make_backend(name).location.partition(":")[0]
        storage = open_storage(f"{scheme}://no-such-bucket/prefix")
        requests = [lambda: storage.read("repo"), lambda: list(storage.list(""))]
        if name != "seaweedfs":  # creates a bucket with its first object
            requests += [
                lambda: storage.put_if_absent("repo", b""),
                storage.ensure_conditional_writes,
            ]
        for refused in requests:
            with pytest.raises(StorageError, match=r"bucket .* does not exist") as caught:
                refused()
            assert not isinstance(caught.value, ObjectNotFoundError | PreconditionFailedError)

    def test_a_store_that_ignores_conditions_is_only_read(
        self, rclone_server: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for key, value in rclone_server.environment.items():
            monkeypatch.setenv(key, value)
        storage = open_storage(f"s3://{rclone_server.bucket}/x")
        with pytest.raises(RefusedError, match="does not honour conditional writes") as caught:
            storage.ensure_conditional_writes()
        assert caught.value.exit_code == 16
        assert list(storage.list("")) == []
