"""Which repository a command works on."""

from __future__ import annotations

from pathlib import Path

import pytest

from icectl.cli.locations import Location, find_location, looks_like_location
from icectl.errors import RepositoryNotFoundError, UsageError
from icectl.model.redaction import hide_secrets, is_secret

CONFIG = """
[repositories.prod]
location = "s3://bucket/prod"
[repositories.prod.storage_options]
region = "eu-west-1"
anonymous = true
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "config.toml").write_text(CONFIG)
    return {"ICECTL_CONFIG": str(tmp_path / "config.toml")}


def test_a_name_from_the_config_file_brings_its_options(environ: dict[str, str]) -> None:
    options = {"region": "eu-west-1", "anonymous": "true"}
    assert find_location("prod", [], environ) == Location("s3://bucket/prod", options)
    changed = find_location("prod", ["region=x", "endpoint_url=http://h"], environ)
    assert changed.storage_options == {**options, "region": "x", "endpoint_url": "http://h"}


def test_a_path_that_could_be_a_name_is_written_with_a_dot(environ: dict[str, str]) -> None:
    assert find_location("./prod", [], environ).url == str(Path.cwd() / "prod")
    assert find_location("elsewhere", [], environ).url == str(Path.cwd() / "elsewhere")


def test_a_path_of_the_config_file_does_not_depend_on_where_the_user_is(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text(
        '[repositories.a]\nlocation = "~/tilde"\n[repositories.b]\nlocation = "beside/it"\n'
    )
    monkeypatch.setenv("HOME", str(tmp_path / "mine"))
    monkeypatch.chdir("/")
    assert find_location("a", [], environ).url == str(tmp_path / "mine" / "tilde")
    assert find_location("b", [], environ).url == str(tmp_path / "beside" / "it")


def test_the_option_wins_over_the_variable(environ: dict[str, str]) -> None:
    named = {**environ, "ICECTL_REPO": "gs://bucket/x"}
    assert find_location(None, [], named).url == "gs://bucket/x"
    assert find_location("/data", [], named).url == "/data"
    with pytest.raises(UsageError):
        find_location("", [], environ)


@pytest.mark.parametrize("content", [["repo"], ["refs", "snapshots"], ["r", "s"]])
def test_the_repository_around_the_current_directory(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: list[str]
) -> None:
    root = tmp_path / "mine"
    inside = root / "chunks" / "deep"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    with pytest.raises(RepositoryNotFoundError) as caught:
        find_location(None, [], environ)
    assert "ICECTL_REPO" in (caught.value.hint or "")
    for name in content:
        if name == "repo":
            (root / name).write_bytes(b"")
        else:
            (root / name).mkdir()
    assert find_location(None, [], environ).url == str(root)


def test_a_directory_with_a_repository_named_repo_is_none(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "repo").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RepositoryNotFoundError, match="no repository in this directory"):
        find_location(None, [], environ)


def test_a_location_is_told_from_a_ref() -> None:
    for text in ("s3://b/x", "/x", "./x", "../x", "~/x", ".", "..", "file:///x"):
        assert looks_like_location(text)
    for text in ("main", "feature/x", "main~2", "tag:v1", "1CEC", "a.b", "x~"):
        assert not looks_like_location(text)


def test_secrets_are_told_from_settings() -> None:
    for key in ("secret_key", "AWS_SECRET_ACCESS_KEY", "client.token", "Password", "credentials"):
        assert is_secret(key, "x")
    for key in ("endpoint_url", "region", "profile", "credentials_file", "anonymous", "keyspace"):
        assert not is_secret(key, "x")
    assert is_secret("endpoint_url", "http://me:pass@host/")
    assert is_secret("endpoint_url", "https://host/?sig=x")
    assert not is_secret("endpoint_url", "http://host/@x")


def test_what_is_no_secret_is_shown() -> None:
    places = ("s3://bucket/me@home/x", "http://host:9000/@x", "s3://a/b and me@home")
    for text in (*places, "endpoint_url=http://127.0.0.1:9000", "x" * 100_000):
        assert hide_secrets(text) == text
