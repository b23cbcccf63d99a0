"""Locations and options, and what of them is repeated to the user."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from icectl.cli.hints import describe_hint
from icectl.errors import StorageError, UsageError
from icectl.repository.initialize import check_apart
from icectl.storage.contract import Storage
from icectl.storage.local import LocalStorage
from icectl.storage.memory import MemoryStorage
from icectl.storage.open import open_storage
from icectl.storage.sharded_listing import plan_listing_shards
from tests.failures import raises
from tests.patience import PATIENCE_SECONDS
from tests.storage.conftest import PROXIED, Backend, backends


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/data/repo", "/data/repo"),
        ("file:///data/a%20repo", "/data/a repo"),
        ("file://localhost/data", "/data"),
        ("s3://bucket/some/prefix/", "s3://bucket/some/prefix"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket//", "s3://bucket"),
        ("s3://bucket//rooted/", "s3://bucket//rooted"),
        ("gs://bucket//a//b/", "gs://bucket/a/b"),
        ("S3://bucket/x", "s3://bucket/x"),
        ("gs://bucket/prefix", "gs://bucket/prefix"),
        ("gcs://bucket/prefix", "gs://bucket/prefix"),
        ("memory://name", "memory://name"),
        ("az://container//a//b/", "az://container/a/b"),
        ("https://host:8443/a%20b/", "https://host:8443/a b"),
    ],
)
def test_locations(location: str, shown: str) -> None:
    storage = open_storage(location)
    assert storage.location == shown
    assert shown in repr(storage)


def test_a_relative_path_is_seen_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage("here")
    monkeypatch.chdir("/")
    assert isinstance(storage, LocalStorage)
    assert storage.location == str(tmp_path / "here")


@pytest.mark.parametrize(
    "location",
    [
        "ftp://host/x",
        "az:///x",
        "https://host/x?signature=hunter2",
        "https://user:hunter2@host/x",
        "s3://",
        "s3:///prefix",
        "gs:///x",
        "file://relative",
        "",
    ],
)
def test_wrong_locations(location: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_storage(location)
    assert caught.value.exit_code == 2 and caught.value.hint
    assert "hunter2" not in f"{caught.value}{caught.value.hint}"


def test_an_unknown_option_lists_the_known_ones_and_hides_its_value() -> None:
    with pytest.raises(UsageError, match="secret_access_key") as caught:
        open_storage("s3://bucket/x", {"secret_access_key": "hunter2"})
    assert caught.value.hint and "endpoint_url, region, profile" in caught.value.hint
    assert "hunter2" not in f"{caught.value}{caught.value.hint}"
    with pytest.raises(UsageError, match="region"):
        open_storage("/path", {"region": "x"})


def test_a_flag_is_true_or_false() -> None:
    with pytest.raises(UsageError, match="anonymous"):
        open_storage("s3://bucket/x", {"anonymous": "maybe"})
    with pytest.raises(UsageError, match="follow_links"):
        open_storage("/data/x", {"follow_links": "maybe"})


def test_a_password_in_an_endpoint_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="endpoint_url") as caught:
        open_storage("s3://bucket/x", {"endpoint_url": "http://user:hunter2@host"})
    assert "hunter2" not in f"{caught.value}{caught.value.hint}"


@pytest.mark.parametrize("url", ["127.0.0.1:9000", "ftp://host", "http://"])
def test_an_endpoint_is_an_http_url(url: str) -> None:
    with pytest.raises(UsageError, match="endpoint_url"):
        open_storage("s3://bucket/x", {"endpoint_url": url})


@pytest.mark.usefixtures("each_driver")
@pytest.mark.parametrize("variable", ["AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"])
def test_a_credentials_file_that_cannot_be_parsed_is_not_repeated(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = hunter1\naws_secret_access_key hunter2\n")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv(variable, str(file))
    with pytest.raises(StorageError) as caught:
        open_storage("s3://bucket/x").read("a")
    assert caught.value.hint and "AWS_SHARED_CREDENTIALS_FILE" in caught.value.hint
    assert "hunter" not in f"{caught.value}{caught.value.hint}"


@pytest.mark.usefixtures("each_driver")
@pytest.mark.parametrize(
    ("variables", "words", "hint"),
    [
        ({"AWS_ENDPOINT_URL": "127.0.0.1:9000"}, r"\(ValueError\)", "AWS_"),
        ({"AWS_DEFAULT_REGION": "us east"}, "AWS region", "AWS_REGION"),
        ({"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": ""}, "PartialCredentials", "AWS_"),
    ],
)
def test_settings_that_cannot_work_are_told_at_once(
    variables: dict[str, str], words: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for name in ("FIRST_DELAY", "LONGEST_DELAY"):
        monkeypatch.setattr(f"icectl.storage.retry.{name}", 2 * PATIENCE_SECONDS)
    began = time.monotonic()
    with pytest.raises(StorageError, match=words) as caught:
        open_storage("s3://bucket/x").read("a")
    assert time.monotonic() - began < PATIENCE_SECONDS, "it was tried again"
    assert caught.value.hint and hint in describe_hint(caught.value.hint)
    assert "hunter2" not in f"{caught.value}{caught.value.hint}"


@pytest.mark.usefixtures("each_driver")
@pytest.mark.parametrize("content", [None, "hunter2"])
def test_google_credentials_that_are_no_file(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "credentials.json"
    if content is not None:
        file.write_text(content)
    with raises(StorageError, remedy="check-google-credentials-file") as caught:
        open_storage("gs://bucket/x", {"credentials_file": str(file)}).read("a")
    assert str(file) in caught.value.message
    assert "hunter2" not in f"{caught.value}{caught.value.hint}"


def test_memory_is_shared_by_name() -> None:
    MemoryStorage("shared").put_if_absent("a", b"1")
    assert open_storage("memory://shared").read("a") == b"1"
    assert list(open_storage("memory://other").list("")) == []


def test_opening_imports_no_cloud_library() -> None:
    program = (
        "import sys; from icectl.storage.open import open_storage\n"
        "open_storage('.'); open_storage('s3://b/x'); open_storage('gs://b/x')\n"
        "print(sorted({'obstore', 'fsspec', 's3fs', 'gcsfs', 'aiohttp', 'asyncio', 'botocore', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


@pytest.mark.parametrize("count", [1, 2, 7, 32, 1024, 5000])
def test_shards_are_one_chain(count: int) -> None:
    shards = plan_listing_shards(count)
    assert len(shards) == min(count, 1024)
    assert shards[0].after == "" and shards[-1].through is None
    assert all(left.through == right.after for left, right in pairwise(shards))


def _read_in_child(storage: Storage, answers: multiprocessing.SimpleQueue[object]) -> None:
    try:
        answers.put(storage.read("a"))
    except StorageError as error:
        answers.put(str(error))


@pytest.mark.parametrize("name", backends(*PROXIED))
def test_after_a_fork(name: str, make_backend: Callable[[str], Backend]) -> None:
    storage = make_backend(name).open()
    storage.put_if_absent("a", b"1")
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_read_in_child, args=(storage, answers))
    child.start()
    child.join(PATIENCE_SECONDS)
    assert child.exitcode == 0
    answer = answers.get()
    # S3 and Google have a second driver, which connects again.
    assert answer == b"1" or (name == "azurite" and "was forked" in answer)


@pytest.mark.parametrize(
    ("scheme", "option", "values"),
    [
        ("s3", "endpoint_url", ("http://127.0.0.1:9", "http://127.0.0.1:10")),
        ("gs", "endpoint_url", ("http://127.0.0.1:9", "http://127.0.0.1:10")),
        ("az", "account", ("one", "other")),
    ],
)
def test_equal_names_on_other_servers(scheme: str, option: str, values: tuple[str, str]) -> None:
    """A mirror may have the same name; the target cannot copy from the other server itself."""
    one, other, same = (
        open_storage(f"{scheme}://bucket/repo", {option: value}) for value in (*values, values[0])
    )
    check_apart(one, other)
    assert not one.can_copy_from(other)
    with pytest.raises(UsageError, match=f"{scheme}://bucket/repo"):
        check_apart(one, same)


@pytest.mark.parametrize("driver", ["obstore", "fsspec"])
def test_profiles_with_other_endpoints(
    driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = ("http://127.0.0.1:9", "http://127.0.0.1:10")
    profiles = {"one": urls[0], "other": urls[1], "same": urls[0]}
    keys = "aws_access_key_id = a\naws_secret_access_key = b\n"
    (tmp_path / "config").write_text(
        "".join(f"[profile {name}]\nendpoint_url = {url}\n{keys}" for name, url in profiles.items())
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    one, other, same = (
        open_storage("s3://bucket/repo", {"profile": name, "driver": driver}) for name in profiles
    )
    check_apart(one, other)
    assert not one.can_copy_from(other)
    assert not one.can_copy_from(same)  # whose credentials may reach what ours do not
    with pytest.raises(UsageError):
        check_apart(one, same)
