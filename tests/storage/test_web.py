"""A repository behind a plain web server is read, and nothing else."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from icectl.errors import ObjectNotFoundError, RefusedError, StorageError, UnsupportedError
from icectl.repository.open import open_repository
from icectl.storage.contract import Storage
from icectl.storage.open import open_storage
from tests.official.histories import create
from tests.servers.azure import web_server
from tests.servers.proxy import Faults, fault_proxy

pytestmark = pytest.mark.server


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Storage]:
    (tmp_path / "root").mkdir()
    create(tmp_path / "root" / "my repo")
    (tmp_path / "root" / "my repo" / "odd+name é").write_bytes(b"0123456789")
    with web_server(tmp_path, tmp_path / "root") as url:
        yield open_storage(f"{url}/my%20repo")


def test_the_history_is_read(web: Storage) -> None:
    repository = open_repository(web)
    assert "main" in repository.branches()
    assert pickle.loads(pickle.dumps(web)).read("repo") == web.read("repo")


def test_objects_are_read(web: Storage) -> None:
    assert web.read("odd+name é") == b"0123456789"
    assert web.read_versioned("odd+name é").data == b"0123456789"
    assert abs(web.read_versioned("odd+name é").read_at / 1e6 - time.time()) < 3
    assert web.info("odd+name é").size == 10
    found = dict(web.read_many(["odd+name é", "none"]))
    assert found["odd+name é"] == b"0123456789"
    assert isinstance(found["none"], ObjectNotFoundError)
    with pytest.raises(ObjectNotFoundError):
        web.read("none")


def test_it_cannot_be_listed(web: Storage) -> None:
    for listing in (
        lambda: list(web.list("chunks")),
        lambda: list(web.list_columns("chunks")),
        lambda: list(web.list_directories("")),
    ):
        with pytest.raises(UnsupportedError) as caught:
            listing()
        assert caught.value.exit_code == 15 and caught.value.hint


def test_it_cannot_be_changed(web: Storage) -> None:
    for change in (
        lambda: web.put_if_absent("a", b"1"),
        lambda: list(web.delete_many(["repo"])),
        web.ensure_conditional_writes,
        lambda: (web.read_for_update("repo"), web.ensure_conditional_writes()),
    ):
        with pytest.raises(RefusedError):
            change()


@pytest.mark.parametrize("fault", ["cut_one_in", "lose_one_in", "refuse_one_in"])
def test_failed_reads_are_tried_again(tmp_path: Path, fault: str) -> None:
    content = bytes(range(256)) * 1024
    names = [f"chunks/{number}" for number in range(6)]
    (tmp_path / "root" / "chunks").mkdir(parents=True)
    for name in names:
        (tmp_path / "root" / name).write_bytes(content)
    faults = Faults(frozenset({"GET"}))
    with web_server(tmp_path, tmp_path / "root") as url, fault_proxy(url, faults) as proxy_url:
        web = open_storage(proxy_url)
        setattr(faults, fault, 2)
        assert web.read(names[0]) == content
        assert dict(web.read_many(names)) == dict.fromkeys(names, content)
    assert faults.cut + faults.lost + faults.refused >= 4


def test_no_server() -> None:
    began = time.monotonic()
    with pytest.raises(StorageError, match="connection refused"):
        open_storage("http://127.0.0.1:1/x").read("repo")
    assert time.monotonic() - began < 15
