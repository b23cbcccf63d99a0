"""Lost responses, throttling, refusals, and servers that are not there."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

import pytest

from icectl.errors import (
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    StorageError,
    ThrottledError,
    UsageError,
)
from icectl.model.ids import ALPHABET, INITIAL_SNAPSHOT_ID
from icectl.repository.initialize import initialize_repository
from icectl.repository.ref_files import RefFiles
from icectl.storage import object_store
from icectl.storage.contract import ListingShard, Storage
from icectl.storage.open import open_storage
from icectl.storage.sharded_listing import list_columns_sharded
from tests.failures import raises
from tests.patience import assert_within, interrupt
from tests.servers.azure import ACCOUNT_KEY, AzureServer
from tests.servers.gcs import FORBIDDEN_BUCKET, PRIVATE_BUCKET, GcsServer
from tests.servers.proxy import Faults, fault_proxy
from tests.servers.s3 import S3Server, aws_environment, s3_client
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

    @pytest.mark.parametrize("fault", ["lose_one_in", "cut_one_in"])
    def test_writers_at_the_same_time(self, behind_proxy: Proxied, fault: str) -> None:
        storage, faults = behind_proxy
        storage.put_if_absent("counter", b"")
        setattr(faults, fault, 5)

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
        assert faults.lost + faults.cut > 0
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
        storage.put_if_absent("a", b"1")
        storage.ensure_conditional_writes()
        assert faults.lost > 0
        assert [info.path for info in storage.list("")] == ["a"]


class TestCutConnections:
    """In the middle of a body, of a response or of a request."""

    CONTENT = bytes(range(256)) * 1024

    def test_no_read_is_short(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        paths = [f"chunks/{number}" for number in range(6)]
        for path in paths:
            storage.put_if_absent(path, self.CONTENT)
        faults.methods, faults.cut_one_in = frozenset({"GET"}), 2
        assert storage.read(paths[0]) == self.CONTENT
        assert storage.read_versioned(paths[0]).data == self.CONTENT
        assert storage.read_range(paths[0], 1000, 100_000) == self.CONTENT[1000:101_000]
        assert dict(storage.read_many(paths)) == dict.fromkeys(paths, self.CONTENT)
        assert sorted(info.path for info in storage.list("chunks")) == paths
        assert faults.cut >= 5

    def test_a_read_that_is_always_cut_fails(
        self, behind_proxy: Proxied, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("icectl.storage.retry.FIRST_DELAY", 0.001)
        storage, faults = behind_proxy
        storage.put_if_absent("a", self.CONTENT)
        faults.methods, faults.cut_one_in = frozenset({"GET"}), 1
        with pytest.raises(StorageError) as caught:
            storage.read("a")
        assert caught.value.exit_code == 14
        ((_, error),) = storage.read_many(["a"])
        assert isinstance(error, StorageError) and not isinstance(error, ObjectNotFoundError)

    def test_every_write_is_whole_and_no_conflict(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        faults.cut_one_in = 2
        version = storage.put_if_absent("repo", self.CONTENT)
        for number in range(5):
            content = self.CONTENT + b"%d" % number
            version = storage.put_if_match("repo", content, version)
            assert storage.read("repo") == content
        assert faults.cut >= 5
        with pytest.raises(PreconditionFailedError):
            storage.put_if_absent("repo", b"other")

    def test_many_writes_are_whole(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        faults.cut_one_in = 2
        paths = [f"chunks/{number}" for number in range(6)]
        items = ((path, self.CONTENT) for path in paths)
        assert dict(storage.write_many(items)) == dict.fromkeys(paths)
        assert faults.cut >= 4
        assert dict(storage.read_many(paths)) == dict.fromkeys(paths, self.CONTENT)

    def test_a_write_that_is_always_cut_changes_nothing(
        self, behind_proxy: Proxied, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("icectl.storage.retry.FIRST_DELAY", 0.001)
        storage, faults = behind_proxy
        version = storage.put_if_absent("repo", b"before")
        faults.cut_one_in = 1
        for put in (
            lambda: storage.put_if_match("repo", self.CONTENT, version),
            lambda: storage.put_if_absent("new", self.CONTENT),
        ):
            with pytest.raises(StorageError) as caught:
                put()
            assert caught.value.exit_code == 14
        faults.cut_one_in = 0
        assert storage.read("repo") == b"before"
        assert [info.path for info in storage.list("")] == ["repo"]


class TestRequests:
    """What a command costs where each request takes long."""

    @staticmethod
    def count(faults: Faults, *words: bytes) -> int:
        heads, faults.heads = faults.heads, []
        return sum(all(word in head.splitlines()[0] for word in words) for head in heads)

    def test_a_small_directory_is_one_request(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        storage.put_if_absent("chunks/A", b"1")
        self.count(faults)
        assert [batch.names for batch in list_columns_sharded(storage, "chunks")] == [["A"]]
        assert self.count(faults, b"GET") == 1
        assert [info.path for info in storage.list("chunks", starts_with="A")] == ["chunks/A"]
        assert self.count(faults, b"GET") == 1

    def test_no_page_beyond_the_end_of_a_shard(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        names = [f"{first}{second}" for first in ALPHABET for second in ALPHABET]
        direct = open_storage(storage.location)  # faster than through the proxy
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda name: direct.put_if_absent(f"chunks/{name}0", b"1"), names[:1020]))
        self.count(faults)
        assert sum(len(batch.names) for batch in list_columns_sharded(storage, "chunks")) == 1020
        assert self.count(faults, b"GET") <= 2  # pages of Azure have 5,000 names
        assert len([*storage.list("chunks", shard=ListingShard("", "0Z0"))]) == 32
        assert self.count(faults, b"GET") == 1

    def test_a_read_for_an_update_is_one_round(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        version = storage.put_if_absent("repo", b"1")
        self.count(faults)
        faults.methods, faults.delay = frozenset({"GET", "PUT", "POST", "HEAD"}), 0.3
        began = time.monotonic()
        found = storage.read_for_update("repo")
        storage.ensure_conditional_writes()
        assert_within(0.6, began)
        assert (found.data, found.version) == (b"1", version)
        assert abs(found.read_at / 1e6 - time.time()) < 3
        assert len(faults.heads) <= 3  # the object, the probe, the clock
        self.count(faults)
        storage.read_for_update("repo")
        storage.ensure_conditional_writes()
        assert len(faults.heads) == 1

    def test_many_small_reads_are_in_flight_together(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        storage.put_if_absent("a", b"1")
        faults.methods, faults.gather = frozenset({"GET"}), 48
        assert len(list(storage.read_many(["a"] * 64))) == 64
        assert max(faults.in_flight) >= 48


class TestReadingMany:
    def test_the_bytes_in_flight_are_bounded(
        self, behind_proxy: Proxied, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage, _ = behind_proxy
        most = 3 << 20
        monkeypatch.setattr(object_store, "BYTES_IN_FLIGHT", most)
        taken: list[int] = []
        take = object_store._ByteBudget.take

        def watch(budget: object_store._ByteBudget, size: int) -> None:
            take(budget, size)
            taken.append(budget._taken)

        monkeypatch.setattr(object_store._ByteBudget, "take", watch)
        sizes = {f"small/{number}": 100 for number in range(30)}
        sizes |= {f"large/{number}": 1 << 20 for number in range(12)} | {"huge": 4 << 20}
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda path: storage.put_if_absent(path, bytes(sizes[path])), sizes))
        found = dict(storage.read_many(iter(sizes)))
        assert {path: len(data) for path, data in found.items()} == sizes  # type: ignore[arg-type]
        assert max(size for size in taken if size != sizes["huge"]) <= most

    @pytest.mark.parametrize("driver", ["obstore", "fsspec"])
    @pytest.mark.parametrize("call", ["read('repo')", "read_many(['a'] * 99).__next__()"])
    def test_ctrl_c_while_the_server_is_silent(self, driver: str, call: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            program = (
                "import os; from icectl.storage.open import open_storage\n"
                f"storage = open_storage('s3://bucket/x', {{'endpoint_url': {url!r},"
                f" 'driver': {driver!r}, 'anonymous': 'true', 'force_path_style': 'true'}})\n"
                f"try: storage.{call}\n"
                "except KeyboardInterrupt: os._exit(130)"
            )
            with subprocess.Popen([sys.executable, "-c", program]) as process:
                connection, _ = silent.accept()
                connection.recv(1)  # it has sent a request, and waits for the response
                interrupt(process, within=2)
                assert process.returncode == 130
                connection.close()


class TestOddKeys:
    @pytest.mark.usefixtures("each_driver")
    def test_keys_that_no_repository_has(
        self, moto_server: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Consoles mark directories; other tools write empty components."""
        for name, value in moto_server.environment.items():
            monkeypatch.setenv(name, value)
        prefix = uuid4().hex
        client = s3_client(moto_server)
        odd = ["chunks/", "chunks/sub/", "chunks//x", "chunks/A", "chunks/empty", "chunks/sub/B"]
        for name in odd:
            body = b"" if name.endswith(("/", "empty")) else b"1"
            client.put_object(Bucket=moto_server.bucket, Key=f"{prefix}/{name}", Body=body)
        storage = open_storage(f"s3://{moto_server.bucket}/{prefix}")
        assert sorted(info.path for info in storage.list("chunks")) == [
            *("chunks//x", "chunks/A", "chunks/empty", "chunks/sub/B")
        ]
        client.delete_object(Bucket=moto_server.bucket, Key=f"{prefix}/chunks//x")
        assert sorted(info.path for info in storage.list("chunks")) == [
            *("chunks/A", "chunks/empty", "chunks/sub/B")
        ]
        assert [*storage.list_directories("chunks")] == ["sub"]


class TestThrottling:
    def test_slow_down_is_waited_out(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        faults.methods, faults.refuse_one_in = frozenset({"PUT", "POST", "GET", "DELETE"}), 2
        storage.put_if_absent("a", b"1")
        assert storage.read("a") == b"1"
        assert list(storage.delete_many(["a"])) == [("a", None)]
        assert faults.refused >= 2

    def test_many_requests_are_waited_out(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        faults.methods, faults.refuse_one_in = frozenset({"PUT", "POST", "GET"}), 3
        paths = [f"chunks/{number:02}" for number in range(20)]
        assert dict(storage.write_many((path, b"1") for path in paths)) == dict.fromkeys(paths)
        assert dict(storage.read_many(paths)) == dict.fromkeys(paths, b"1")
        assert sorted(info.path for info in storage.list("chunks")) == paths
        listed = [name for part in storage.list_columns("chunks") for name in part.names]
        assert sorted(f"chunks/{name}" for name in listed) == paths
        assert faults.refused >= 10

    @staticmethod
    def names_for_20_requests(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """A request of S3 could delete 1,000 objects, which says nothing more here."""
        number = min(50, storage.deletes_per_request)
        monkeypatch.setattr(type(storage), "deletes_per_request", number)
        return [f"none/{number}" for number in range(20 * number)]

    def test_deletes_begin_with_one_request(
        self, behind_proxy: Proxied, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage, faults = behind_proxy
        faults.methods, faults.delay = frozenset({"POST", "DELETE"}), 0.5
        paths = self.names_for_20_requests(storage, monkeypatch)
        assert dict(storage.delete_many(paths)) == dict.fromkeys(paths)
        assert faults.in_flight[0] == 1 and max(faults.in_flight[:3]) <= 2
        assert max(faults.in_flight) > 3

    def test_deletes_slow_down(
        self, behind_proxy: Proxied, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage, faults = behind_proxy
        faults.methods, faults.delay = frozenset({"POST", "DELETE"}), 0.05
        faults.refuse_above = 2
        paths = self.names_for_20_requests(storage, monkeypatch)
        assert dict(storage.delete_many(paths)) == dict.fromkeys(paths)
        assert faults.refused > 0 and max(faults.in_flight) < 8

    def test_deletes_that_stay_throttled(
        self, behind_proxy: Proxied, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("icectl.storage.retry.FIRST_DELAY", 0.001)
        storage, faults = behind_proxy
        faults.methods, faults.refuse_one_in = frozenset({"POST", "DELETE"}), 1
        paths = self.names_for_20_requests(storage, monkeypatch)
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
        with pytest.raises(ThrottledError):
            storage.read("a")
        assert faults.refused == 8

    def test_a_refusal_is_final_at_once(self, behind_proxy: Proxied) -> None:
        storage, faults = behind_proxy
        sent = len(faults.heads)
        with pytest.raises(ObjectNotFoundError):
            storage.read("missing")
        assert len(faults.heads) == sent + 1
        assert faults.lost == faults.refused == 0


@pytest.mark.usefixtures("each_driver")
class TestPermissions:
    def test_a_reader_cannot_write(
        self, seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        location = f"s3://{seaweedfs_server.bucket}/{uuid4().hex}"
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
            with raises(StorageError, remedy="check-aws-credentials") as caught:
                refused()
            assert caught.value.exit_code == 14
        outcome = dict(reader.delete_many(["a", "b"]))
        assert all(isinstance(error, StorageError) for error in outcome.values())
        assert reader.read("a") == b"1"

    def test_a_wrong_secret_is_not_repeated(
        self, seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for key, value in seaweedfs_server.environment.items():
            monkeypatch.setenv(key, value)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "my-wrong-secret")
        with raises(StorageError, remedy="check-aws-credentials") as caught:
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
        with raises(StorageError, remedy="check-aws-credentials"):
            open_storage(location).read("a")
        with raises(StorageError, remedy="check-aws-credentials"):
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
        with raises(StorageError, remedy="check-aws-profile"):
            list(open_storage(location, {"profile": "nobody"}).list(""))

    def test_a_forbidden_gcs_bucket(
        self, gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for key, value in gcs_server.environment.items():
            monkeypatch.setenv(key, value)
        storage = open_storage(f"gs://{FORBIDDEN_BUCKET}/x")
        with raises(StorageError, remedy="check-google-credentials"):
            storage.read("a")
        with raises(StorageError, remedy="check-google-credentials"):
            storage.ensure_conditional_writes()

    def test_a_service_account(
        self, gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        for key, value in gcs_server.environment.items():
            monkeypatch.setenv(key, value)
        location = f"gs://{PRIVATE_BUCKET}/x"
        with raises(StorageError, remedy="check-google-credentials"):
            open_storage(location).read("a")
        key_file = gcs_server.write_service_account(tmp_path)
        assert list(open_storage(location, {"credentials_file": str(key_file)}).list("")) == []
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file))
        assert list(open_storage(location).list("")) == []

    def test_a_service_account_that_signs_its_own_token(
        self,
        each_driver: str,
        gcs_server: GcsServer,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        if each_driver == "fsspec":
            pytest.skip("gcsfs asks Google for the token")
        for key, value in gcs_server.environment.items():
            monkeypatch.setenv(key, value)
        key_file = gcs_server.write_service_account(tmp_path, "https://oauth2.googleapis.com/token")
        options = {"credentials_file": str(key_file)}
        assert list(open_storage(f"gs://{PRIVATE_BUCKET}/x", options).list("")) == []

    def test_each_failed_delete_of_one_request_is_told(
        self, seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        location = f"s3://{seaweedfs_server.bucket}/limited"
        for key, value in seaweedfs_server.environment.items():
            monkeypatch.setenv(key, value)
        keeper = open_storage(location)
        list(keeper.delete_many(["held"]))  # of the other driver
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
        storage = open_storage(f"gs://{gcs_server.bucket}/{uuid4().hex}")
        for path in ("a", "undeletable", "b"):
            storage.put_if_absent(path, b"1")
        outcome = dict(storage.delete_many(["a", "undeletable", "b"]))
        assert outcome["a"] is None and outcome["b"] is None
        assert "refused access to undeletable" in str(outcome["undeletable"])


def test_a_bucket_in_another_region_is_left_to_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which finds the region; that needs the real servers of Amazon."""
    monkeypatch.setattr("icectl.storage.retry.FIRST_DELAY", 0.001)
    agents: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            agents.append(self.headers["User-Agent"])
            body = b"<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>"
            self.send_response(301)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *arguments: object) -> None:
            pass

    for name, value in aws_environment("http://127.0.0.1:1", "x", "hunter2").items():
        monkeypatch.setenv(name, value)
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        requests: tuple[Callable[[Storage], object], ...] = (
            lambda storage: storage.read("a"),
            lambda storage: list(storage.list("a")),
        )
        for request in requests:
            agents.clear()
            with pytest.raises(StorageError):
                request(open_storage("s3://bucket/x", {"endpoint_url": url}))
            assert "object_store" in agents[0] and "otocore" in agents[1]
        server.shutdown()


class TestAzure:
    @pytest.fixture(autouse=True)
    def account(self, azurite_server: AzureServer, monkeypatch: pytest.MonkeyPatch) -> AzureServer:
        for name, value in azurite_server.environment.items():
            monkeypatch.setenv(name, value)
        return azurite_server

    def test_a_connection_string(
        self, account: AzureServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in account.environment:
            monkeypatch.delenv(name)
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", account.connection_string)
        storage = open_storage(f"az://{account.bucket}/{uuid4().hex}")
        storage.put_if_absent("a", b"1")
        assert storage.read("a") == b"1"
        assert ACCOUNT_KEY.encode() not in pickle.dumps(storage)

    def test_wrong_credentials_are_not_repeated(
        self, account: AzureServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in (
            ("AZURE_STORAGE_ACCOUNT_KEY", "aHVudGVyMg=="),
            ("AZURE_STORAGE_SAS_TOKEN", "?sv=2021-12-02&sig=aHVudGVyMg%3D"),
        ):
            monkeypatch.setenv(name, value)
            with raises(StorageError, remedy="check-azure-credentials") as caught:
                open_storage(f"az://{account.bucket}/x").read("a")
            assert "aHVudGVyMg" not in f"{caught.value} {caught.value.hint} {caught.value!r}"
            monkeypatch.delenv(name)

    def test_no_container(self) -> None:
        storage = open_storage("az://no-such-container/x")
        for refused in (
            lambda: storage.read("repo"),
            lambda: list(storage.list("")),
            lambda: storage.put_if_absent("repo", b""),
            storage.ensure_conditional_writes,
        ):
            with pytest.raises(StorageError, match="no-such-container"):
                refused()

    def test_settings_that_cannot_work(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
        with raises(UsageError, remedy="name-azure-account"):
            open_storage("az://container/x").read("a")
        options = {"account": "x", "endpoint_url": "http://storage.invalid"}
        with raises(RefusedError, remedy="use-https-or-anonymous"):
            open_storage("az://container/x", options).read("a")
        options = {"account": "x", "endpoint_url": "http://127.0.0.1:1", "anonymous": "true"}
        with pytest.raises(StorageError, match="connection refused"):
            open_storage("az://container/x", options).read("a")


@pytest.mark.usefixtures("each_driver")
class TestWrongPlaces:
    @pytest.mark.parametrize("scheme", ["s3", "gs"])
    def test_no_server(self, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_GCE_CHECK", "true")
        monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
        options = {"endpoint_url": "http://127.0.0.1:1", "anonymous": "true"}
        began = time.monotonic()
        with pytest.raises(StorageError, match=r"bucket.*connection refused") as caught:
            open_storage(f"{scheme}://bucket/prefix", options).read("repo")
        assert_within(60, began)  # the libraries would try for minutes
        assert caught.value.exit_code == 14 and caught.value.hint

    @pytest.mark.parametrize("status", [200, 404])
    @pytest.mark.parametrize("scheme", ["s3", "gs"])
    def test_a_web_server_is_no_damaged_repository(
        self, scheme: str, status: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Website(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else b"<html>Welcome!</html>")

            do_HEAD = do_PUT = do_GET  # noqa: N815

            def log_message(self, *arguments: object) -> None:
                pass

        monkeypatch.setattr("icectl.storage.retry.FIRST_DELAY", 0.001)
        with ThreadingHTTPServer(("127.0.0.1", 0), Website) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}"
            options = {"endpoint_url": url, "anonymous": "true"}
            for place in (f"{scheme}://bucket/prefix", f"{scheme}://bucket"):
                storage = open_storage(place, options)
                requests: list[Callable[[Storage], object]] = [
                    lambda storage: storage.put_if_absent("repo", b"x")
                ]
                if status == 404:  # any XML could be a listing
                    requests.append(lambda storage: list(storage.list("refs")))
                    requests.append(lambda storage: list(storage.list_directories("")))
                for request in requests:
                    with pytest.raises(StorageError) as caught:
                        request(storage)
                    assert not isinstance(caught.value, ObjectNotFoundError)
            server.shutdown()

    def test_no_credentials(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        options = {"endpoint_url": "http://127.0.0.1:1", "region": "us-east-1"}
        requests: tuple[Callable[[Storage], object], ...] = (
            lambda storage: storage.read("repo"),
            lambda storage: storage.read_versioned("repo"),
        )
        for request in requests:
            with raises(StorageError, remedy="check-aws-credentials"):
                request(open_storage("s3://bucket/prefix", options))

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
            with pytest.raises(StorageError, match="no-such-bucket") as caught:
                refused()
            assert not isinstance(caught.value, ObjectNotFoundError | PreconditionFailedError)

    def test_a_store_that_ignores_conditions_is_only_read(
        self, rclone_server: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for key, value in rclone_server.environment.items():
            monkeypatch.setenv(key, value)
        storage = open_storage(f"s3://{rclone_server.bucket}/x")
        with pytest.raises(RefusedError) as caught:
            storage.ensure_conditional_writes()
        assert caught.value.exit_code == 16
        assert list(storage.list("")) == []

    @pytest.mark.usefixtures("each_driver")
    def test_a_store_that_ignores_if_none_match_creates_nothing(
        self, make_backend: Callable[[str], Backend]
    ) -> None:
        backend, faults = make_backend("moto"), Faults()
        with fault_proxy(backend.environment["AWS_ENDPOINT_URL"], faults) as url:
            storage = backend.open(endpoint_url=url)
            initialize_repository(storage, spec_version=1)
            RefFiles(storage).create_tag("v1", INITIAL_SNAPSHOT_ID)
            paths = sorted(info.path for info in storage.list(""))

            faults.ignored_header = b"if-none-match"
            storage = backend.open(endpoint_url=url)
            storage.ensure_conditional_writes()  # by If-Match alone, it would pass
            refs, elsewhere = RefFiles(storage), make_backend("moto").open(endpoint_url=url)
            for attempt in (
                lambda: refs.create_branch("dev", INITIAL_SNAPSHOT_ID),
                lambda: refs.create_tag("v1", INITIAL_SNAPSHOT_ID),
                lambda: refs.delete_tag("v1"),
                lambda: initialize_repository(elsewhere),
            ):
                with pytest.raises(RefusedError):
                    attempt()
            assert sorted(info.path for info in storage.list("")) == paths
            assert list(elsewhere.list("")) == []
