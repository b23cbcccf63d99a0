"""Named repositories: the commands, the config file, and secrets that never show."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path

import pytest

from tests.command_line import Icectl


@pytest.fixture
def config(environ: dict[str, str]) -> Path:
    path = Path(environ["ICECTL_CONFIG"])
    path.parent.mkdir()
    return path


def test_add_show_list_remove(icectl: Icectl, environ: dict[str, str]) -> None:
    endpoint = "endpoint_url=http://127.0.0.1:9000"
    added = icectl("remote", "add", "lab", "s3://bucket/x", "--storage-option", endpoint, "--json")
    expected = {
        "name": "lab",
        "location": "s3://bucket/x",
        "storage_options": {"endpoint_url": "http://127.0.0.1:9000"},
    }
    assert (added.code, added.document) == (0, expected)
    path = Path(environ["ICECTL_CONFIG"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert icectl("remote", "show", "lab", "--json").document == expected
    assert icectl("remote", "list", "--json").document == {"remotes": [expected]}
    assert icectl("remote", "list").out == "NAME  LOCATION\nlab   s3://bucket/x\n"
    assert icectl("remote", "add", "a", "gs://bucket/a").code == 0
    lines = icectl("remote", "list", "--jsonl").out.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["lab", "a"]
    for name in ("lab", "a"):
        assert icectl("remote", "remove", name).code == 0
    assert path.read_text() == ""
    assert icectl("remote", "list", "--jsonl").out == ""


def test_a_path_is_kept_absolute(
    icectl: Icectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert icectl("remote", "add", "here", "some", "--json").document["location"] == str(
        tmp_path / "some"
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["add", "lab", "s3://other/x"], 16),
        (["add", "bad/name", "s3://other/x"], 2),
        (["add", "", "s3://other/x"], 2),
        (["add", "x", ""], 2),
        (["add", "x", "ftp://other/x"], 2),
        (["add", "x", "s3://"], 2),
        (["add", "x", "s3://b/x", "--storage-option", "nonsense=1"], 2),
        (["add", "x", "s3://b/x", "--storage-option", "nonsense"], 2),
        (["show", "nobody"], 12),
        (["remove", "nobody"], 12),
    ],
)
def test_refusals(icectl: Icectl, arguments: list[str], code: int) -> None:
    icectl("remote", "add", "lab", "s3://bucket/x")
    outcome = icectl("remote", *arguments)
    assert outcome.code == code
    assert outcome.err.startswith("icectl: error: ")
    assert "hint: " in outcome.err
    assert len(icectl("remote", "list", "--json").document["remotes"]) == 1


SECRET_KEYS = (
    "secret",
    "aws_secret_access_key",
    "key",
    "token",
    "sas_token",
    "password",
    "api_key",
)


@pytest.mark.parametrize(
    "words",
    [
        *(("s3://b/x", "--storage-option", f"{key}=hunter2") for key in SECRET_KEYS),
        ("s3://me:hunter2@bucket/x",),
    ],
)
def test_a_secret_is_refused_and_not_repeated(
    icectl: Icectl, environ: dict[str, str], words: tuple[str, ...]
) -> None:
    outcome = icectl("remote", "add", "x", *words, "-vv")
    assert outcome.code == 2
    assert "hunter2" not in outcome.err + outcome.out
    assert "standard variables or files" in outcome.err
    assert not Path(environ["ICECTL_CONFIG"]).exists()


def test_a_password_written_by_hand_is_not_used(icectl: Icectl, config: Path) -> None:
    config.write_text('[repositories.x]\nlocation = "s3://user:hunter2@bucket/x"\n')
    for call in ("log", "branch list", "init", "expire --keep-last 1"):
        outcome = icectl(*call.split(), "-r", "x")
        assert outcome.code == 2
        assert "a user name or a password" in outcome.err
        assert "hunter2" not in outcome.out + outcome.err


def test_a_secret_written_by_hand_is_hidden(icectl: Icectl, config: Path) -> None:
    config.write_text(
        '[repositories.x]\nlocation = "s3://me:hunter2@b/x"\n'
        '[repositories.x.storage_options]\nsecret = "hunter2"\nanonymous = true\n'
    )
    for form in ([], ["--json"]):
        for words in (["show", "x"], ["list"], ["remove", "x"]):
            outcome = icectl("remote", *words, *form)
            assert "hunter2" not in outcome.out + outcome.err


HAND_WRITTEN = """\
# my repositories
top = 1   # stays

[repositories.old]  # about to go
location = "s3://a/b" # x

# about old

[repositories.old.policies.default]
keep = "3d"

# about the next one
[repositories."other name"]
location = '''s3://c/d'''

[[extra]]
n = 1
"""


def test_the_rest_of_the_file_stays(icectl: Icectl, config: Path) -> None:
    config.write_text(HAND_WRITTEN)
    assert icectl("remote", "add", "new", "gs://e/f").code == 0
    text = config.read_text()
    assert set(HAND_WRITTEN.splitlines()) <= set(text.splitlines())
    assert tomllib.loads(text)["repositories"]["new"] == {"location": "gs://e/f"}
    assert icectl("remote", "remove", "old").code == 0
    text = config.read_text()
    assert text.startswith("# my repositories\ntop = 1   # stays\n")
    assert '# about the next one\n[repositories."other name"]' in text
    document = tomllib.loads(text)
    assert document["repositories"].keys() == {"other name", "new"}
    assert document["extra"] == [{"n": 1}]


def test_an_inline_table_can_be_changed(icectl: Icectl, config: Path) -> None:
    config.write_text('repositories = { x = { location = "s3://a/b" } }\n')
    assert icectl("remote", "add", "y", "s3://c/d").code == 0
    assert icectl("remote", "remove", "x").code == 0
    document = tomllib.loads(config.read_text())
    assert document == {"repositories": {"y": {"location": "s3://c/d"}}}


@pytest.mark.parametrize(
    "data",
    [
        *(b"[repositories", b"repositories = 1", b"[repositories.x]\n", b"[repositories]\nx = 1\n"),
        b"\xff\xfe",
    ],
)
def test_a_malformed_file_is_told(icectl: Icectl, config: Path, data: bytes) -> None:
    config.write_bytes(data)
    outcome = icectl("remote", "list")
    assert outcome.code == 2
    assert str(config) in outcome.err


def test_a_linked_file_stays_a_link(icectl: Icectl, config: Path, tmp_path: Path) -> None:
    config.symlink_to(tmp_path / "dotfiles.toml")
    assert icectl("remote", "add", "x", "s3://a/b").code == 0
    assert config.is_symlink()
    assert (tmp_path / "dotfiles.toml").exists()


def test_where_the_file_is_looked_for(icectl: Icectl, tmp_path: Path) -> None:
    icectl("remote", "add", "x", "s3://a/b", ICECTL_CONFIG="", XDG_CONFIG_HOME=str(tmp_path / "x"))
    assert (tmp_path / "x" / "icectl" / "config.toml").exists()
    icectl("remote", "add", "x", "s3://a/b", ICECTL_CONFIG="", HOME=str(tmp_path / "h"))
    assert (tmp_path / "h" / ".config" / "icectl" / "config.toml").exists()


def test_a_signature_in_the_config_file_is_not_shown(
    icectl: Icectl, environ: dict[str, str]
) -> None:
    config = Path(environ["ICECTL_CONFIG"])
    config.parent.mkdir(exist_ok=True)
    config.write_text('[repositories.x]\nlocation = "https://h/x?X-Amz-Signature=hunter2"\n')
    for words in (("list",), ("show", "x"), ("list", "--json")):
        outcome = icectl("remote", *words)
        assert outcome.code == 0
        assert "hunter2" not in outcome.out + outcome.err


def test_the_group_takes_no_repository(icectl: Icectl) -> None:
    assert "--repo" not in icectl("remote", "--help").out
    assert icectl("remote", "-r", "elsewhere", "list").code == 2
