"""`icectl remote discover`: names for the repositories that it finds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from icectl.cli.config_file import add_repositories, read_config_file
from icectl.cli.locations import Location
from icectl.errors import RefusedError
from icectl.ops.discover import NAME, suggest_name
from tests.cli.terminals import Terminal
from tests.command_line import Icectl
from tests.servers.s3 import S3Server


@pytest.fixture
def data(icectl: Icectl, tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for name in ("prod/weather", "test/weather", "ocean"):
        assert icectl("init", str(root / name)).code == 0
    return root


def names(icectl: Icectl) -> dict[str, str]:
    remotes = icectl("remote", "list", "--json").document["remotes"]
    return {one["name"]: one["location"] for one in remotes}


def test_listing_adds_nothing(icectl: Icectl, data: Path) -> None:
    found = icectl("remote", "discover", str(data), "--json")
    assert (found.code, found.document) == (
        0,
        {
            "url": str(data),
            "skipped": [],
            "repositories": [
                {
                    "location": f"{data}/{path}",
                    "name": name,
                    "spec_version": 2,
                    "known": False,
                    "added": False,
                }
                for path, name in (
                    ("ocean", "ocean"),
                    ("prod/weather", "weather"),
                    ("test/weather", "test-weather"),
                )
            ],
        },
    )
    lines = icectl("remote", "discover", str(data), "--jsonl").out.splitlines()
    assert len(lines) == 3
    text = icectl("remote", "discover", str(data))
    assert (text.code, len(text.out.splitlines())) == (0, 4)
    assert "--yes" in text.err  # there is no terminal to ask on
    assert names(icectl) == {}


@pytest.mark.parametrize("flag", ["--yes", "-y", "--add"])
def test_adding(icectl: Icectl, data: Path, tmp_path: Path, flag: str) -> None:
    assert icectl("remote", "add", "sea", str(data / "ocean")).code == 0
    assert icectl("remote", "add", "weather", str(tmp_path / "elsewhere")).code == 0
    found = icectl("remote", "discover", str(data), flag, "--json").document["repositories"]
    assert {one["name"]: (one["known"], one["added"]) for one in found} == {
        "sea": (True, False),
        "prod-weather": (False, True),
        "test-weather": (False, True),
    }
    assert names(icectl) == {
        "sea": f"{data}/ocean",
        "weather": f"{tmp_path}/elsewhere",
        "prod-weather": f"{data}/prod/weather",
        "test-weather": f"{data}/test/weather",
    }
    assert icectl("log", "-r", "test-weather").code == 0
    again = icectl("remote", "discover", str(data), flag, "--json").document["repositories"]
    assert all(one["known"] and not one["added"] for one in again)


@pytest.mark.parametrize(("answer", "count"), [("y", 3), ("n", 0), ("", 0)])
def test_a_question_on_a_terminal(
    icectl: Icectl, environ: dict[str, str], data: Path, answer: str, count: int
) -> None:
    command = [sys.executable, "-m", "icectl.cli.main", "remote", "discover", str(data)]
    with Terminal(command, {**environ, "TERM": "xterm"}) as terminal:
        terminal.read_until("3 new names")
        terminal.send(f"{answer}\n")
        _, code = terminal.finish()
    assert code == 0
    assert len(names(icectl)) == count


def test_relative_and_linked_locations_are_known(
    icectl: Icectl, data: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    (tmp_path / "link").symlink_to(data)
    config = Path(environ["ICECTL_CONFIG"])
    config.parent.mkdir()
    config.write_text(
        '[repositories.a]\nlocation = "../data/ocean/"\n'
        f'[repositories.b]\nlocation = "{tmp_path}/link/prod/weather"\n'
        '[repositories.bad]\nlocation = "nothing://x"\n'
        '[repositories.azure]\nlocation = "az://container/x"\n'  # without an account
    )
    for place in (str(data), str(tmp_path / "link"), f"file://{data}"):
        found = icectl("remote", "discover", place, "--json").document["repositories"]
        assert {one["name"]: one["known"] for one in found} == {
            "a": True,
            "b": True,
            "weather": False,
        }


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["{data}/absent"], 2),
        ([""], 2),
        (["{data}", "--depth", "-1"], 2),
        (["nothing://x"], 2),
        (["s3://user:password@bucket/x"], 2),
        (["https://127.0.0.1:9/x"], 15),
        (["{data}/ocean/chunks-of-nothing"], 2),
        (["{data}", "--depth", "0"], 0),
        (["{data}", "--depth", "99999999999"], 0),
    ],
)
def test_codes(icectl: Icectl, data: Path, words: list[str], code: int) -> None:
    done = icectl("remote", "discover", *(word.format(data=data) for word in words), "--json")
    assert done.code == code, done.err
    assert "password" not in done.out + done.err.replace("a password", "")


def test_what_cannot_be_in_the_config_file(icectl: Icectl, data: Path) -> None:
    (data / "ocean").rename(data / os.fsdecode(b"oc\xffean"))
    done = icectl("remote", "discover", str(data), "--yes", "--json")
    assert done.code == 0
    assert {one["name"]: one["added"] for one in done.document["repositories"]} == {
        "oc-ean": False,
        "weather": True,
        "test-weather": True,
    }
    assert names(icectl).keys() == {"weather", "test-weather"}


def test_a_directory_that_cannot_be_read(icectl: Icectl, data: Path) -> None:
    (data / "test" / "weather" / "repo").unlink()
    os.mkfifo(data / "test" / "weather" / "repo")
    done = icectl("remote", "discover", str(data), "--json")
    assert done.code == 3
    assert [one["location"] for one in done.document["skipped"]] == [f"{data}/test/weather"]
    assert len(done.document["repositories"]) == 2


def test_suggested_names() -> None:
    taken: set[str] = set()
    for location, name in [
        ("s3://bucket", "bucket"),
        ("s3://bucket/a b/ü/..x..", "x"),
        ("s3://bucket/x", "bucket-x"),
        ("s3://bucket/x", "x-2"),
        ("s3://bucket/x", "x-3"),
        ("/ü/日本", "repository"),
        ("/ü/日本", "repository-2"),
        ("/a/-\x1b[2J", "2J"),
    ]:
        found = suggest_name(location, taken)
        assert NAME.fullmatch(found)
        assert found == name
        taken.add(found)


@pytest.mark.server
def test_options_are_stored(
    icectl: Icectl, seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = dict(seaweedfs_server.environment)
    endpoint = variables.pop("AWS_ENDPOINT_URL")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    root = f"s3://{seaweedfs_server.bucket}/discover"
    option = ("--storage-option", f"endpoint_url={endpoint}")
    for name in ("one", "below/two"):
        assert icectl("init", f"{root}/{name}", *option, **variables).code == 0
    done = icectl("remote", "discover", f"{root}/", *option, "--yes", "--json", **variables)
    assert done.code == 0, done.err
    assert names(icectl) == {"two": f"{root}/below/two", "one": f"{root}/one"}
    assert icectl("log", "-r", "two", **variables).code == 0
    again = icectl("remote", "discover", root, *option, "--json", **variables)
    assert [one["known"] for one in again.document["repositories"]] == [True, True]


def test_names_are_added_at_once(tmp_path: Path) -> None:
    """None is added if another process has used one of them since the file was read."""
    environ = {"ICECTL_CONFIG": str(tmp_path / "config.toml")}
    one, two = Location("/one", {}), Location("/two", {"follow_links": "true"})
    add_repositories(read_config_file(environ), {"b": one})
    with pytest.raises(RefusedError):
        add_repositories(read_config_file(environ), {"a": two, "b": two})
    assert read_config_file(environ).repositories == {"b": one}
    add_repositories(read_config_file(environ), {"a": two, "c": two})
    assert read_config_file(environ).repositories == {"b": one, "a": two, "c": two}
