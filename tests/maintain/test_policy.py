"""The maintenance in the config file: which repositories are chosen, and mistakes in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from icectl.checks.rules import Level
from icectl.cli.commands.maintain import combined_exit_code
from icectl.cli.config_file import read_config_file
from icectl.cli.maintenance_policy import MaintenanceTable
from icectl.ops.gc.safeguards import MaxDelete
from icectl.ops.maintain import MaintenancePolicy
from tests.command_line import Icectl

DAY = 24 * 3600 * 1_000_000
NOW = 20_000 * DAY
FULL = """
[repositories.weather]
location = "nowhere"
[repositories.weather.policies.nightly]
older_than = "30d"
keep_daily = 60
[repositories.weather.maintenance]
expire = "nightly"
gc_older_than = "7d"
gc_max_delete = "20%"
overwritten_older_than = "90d"
truncate_ops_log = true
validate = "data"
validate_sample = "1/30"
protect_branches = ["release-*"]
[[repositories.weather.maintenance.delete_branches]]
match = "tmp-*"
older_than = "30d"
[[repositories.weather.maintenance.delete_branches]]
match = ["ci-*", "pr-*"]
older_than = "2d"
"""


@pytest.fixture
def config(environ: dict[str, str]) -> Path:
    path = Path(environ["ICECTL_CONFIG"])
    path.parent.mkdir()
    path.write_text(FULL)
    return path


def policy_of(environ: dict[str, str]) -> MaintenancePolicy:
    file = read_config_file(environ)
    values = file.maintenance("weather")
    assert values is not None
    return MaintenanceTable(file, "weather", values).policy_at(NOW, NOW + DAY)


def test_every_key(environ: dict[str, str], config: Path) -> None:
    policy = policy_of(environ)
    assert [(rule.match, rule.older_than) for rule in policy.delete_branches] == [
        (("tmp-*",), NOW - 30 * DAY),
        (("ci-*", "pr-*"), NOW - 2 * DAY),
    ]
    assert policy.protect_branches == ("release-*",)
    assert policy.expire is not None
    assert (policy.expire.older_than, policy.expire.keep_daily) == (NOW - 30 * DAY, 60)
    assert policy.gc is not None
    assert (policy.gc.cutoff, policy.gc.backups_older_than) == (NOW - 7 * DAY, NOW - 90 * DAY)
    assert (policy.gc.max_delete, policy.gc.truncate_ops_log) == (MaxDelete(percent=20), True)
    assert policy.validate is not None and policy.validate.sample is not None
    assert (policy.validate.level, policy.validate.now) == (Level.DATA, NOW + DAY)


def test_a_number_of_objects(environ: dict[str, str], config: Path) -> None:
    config.write_text(FULL.replace('"20%"', "1000"))
    gc = policy_of(environ).gc
    assert gc is not None and gc.max_delete == MaxDelete(count=1000)


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("expires", 'expire = "nightly"', 'expires = "nightly"'),
        ("expire", 'expire = "nightly"', 'expire = "weekly"'),
        ("expire", 'expire = "nightly"', "expire = 1"),
        ("expire", "keep_daily = 60", 'keep_daily = "many"'),
        ("expire", "keep_daily = 60", "keep_dayly = 60"),
        ("expire", "keep_daily = 60", "keep_daily = 0"),
        ("expire", '"30d"\nkeep_daily = 60', '"2999-01-01"'),
        ("expire", 'older_than = "30d"\nkeep_daily = 60', ""),
        ("gc_older_than", '"7d"', "7"),
        ("gc_older_than", '"7d"', '"7 moons"'),
        ("gc_older_than", '"7d"', '"2h"'),
        ("gc_older_than", '"7d"', '"2024-01-31"'),
        ("gc_max_delete", '"20%"', '"120%"'),
        ("gc_max_delete", '"20%"', "true"),
        ("gc_max_delete", '"20%"', "0.2"),
        ("gc_max_delete", 'gc_older_than = "7d"', ""),
        ("overwritten_older_than", '"90d"', '"1h"'),
        ("truncate_ops_log", "truncate_ops_log = true", 'truncate_ops_log = "yes"'),
        ("truncate_ops_log", 'overwritten_older_than = "90d"', ""),
        ("validate", 'validate = "data"', 'validate = "everything"'),
        ("validate_sample", '"1/30"', '"31/30"'),
        ("validate_sample", 'validate = "data"', 'validate = "chunks"'),
        ("validate_sample", 'validate = "data"', ""),
        ("protect_branches", '["release-*"]', "[1]"),
        ("protect_branches", '["release-*"]', '[""]'),
        ("protect_branches", "keep_daily = 60", "keep_daily = 60\ndelete_expired_branches = true"),
        ("delete_branches.match", '"tmp-*"', "1"),
        ("delete_branches.older_than", '"tmp-*"\nolder_than = "30d"', '"tmp-*"\nolder_than = 30'),
        ("delete_branches.than", '"tmp-*"\nolder_than', '"tmp-*"\nthan'),
        ("delete_branches", '"tmp-*"\nolder_than = "30d"', '"tmp-*"'),
    ],
)
def test_a_mistake_is_found_before_anything_starts(
    icectl: Icectl, config: Path, key: str, old: str, new: str
) -> None:
    assert old in FULL
    text = FULL.replace(old, new, 1)
    config.write_text(f'{text}\n[repositories.other]\nlocation = "."\nmaintenance = {{validate = "refs"}}\n')  # fmt: skip
    outcome = icectl("maintain", "--all", "--yes", "--json")
    assert (outcome.code, outcome.out, outcome.error["kind"]) == (2, "", "usage")
    assert str(config) in outcome.error["message"]
    assert f"repositories.weather.maintenance.{key}: " in outcome.error["message"]
    assert outcome.error["hint"]


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("expire", '"nightly"', '""'),
        ("gc_older_than", '"7d"', '""'),
        ("gc_max_delete", '"20%"', "1.5"),
        ("gc_max_delete", '"20%"', '""'),
        ("overwritten_older_than", '"90d"', '""'),
        ("validate", '"data"', '""'),
        ("validate_sample", '"1/30"', '""'),
        ("delete_branches.older_than", '"2d"', '""'),
    ],
)
def test_a_wrong_value_is_quoted(
    icectl: Icectl, config: Path, key: str, old: str, new: str
) -> None:
    """A float is not asked to be a string, and neither is a string that is empty."""
    assert old in FULL
    config.write_text(FULL.replace(old, new, 1))
    outcome = icectl("maintain", "--all", "--yes", "--json")
    assert (outcome.code, outcome.error["kind"]) == (2, "usage")
    reason = outcome.error["message"].partition(f"maintenance.{key}: ")[2]
    assert new.replace('"', "'") in reason
    assert outcome.error["hint"]


def test_delete_branches_as_a_table(icectl: Icectl, config: Path) -> None:
    config.write_text(
        '[repositories.a]\nlocation = "x"\n[repositories.a.maintenance.delete_branches]\n'
        'match = "tmp-*"\nolder_than = "3d"\n'
    )
    outcome = icectl("maintain", "a", "--yes", "--json")
    assert outcome.code == 2
    assert "[[repositories.a.maintenance.delete_branches]]" in outcome.error["message"]


@pytest.mark.parametrize("maintenance", ["[]", "1", '"x"', "{}", "{protect_branches = ['x']}"])
def test_maintenance_that_says_nothing(icectl: Icectl, config: Path, maintenance: str) -> None:
    config.write_text(f'[repositories.a]\nlocation = "x"\nmaintenance = {maintenance}\n')
    outcome = icectl("maintain", "--all", "--yes", "--json")
    assert outcome.code == 2
    assert "repositories.a.maintenance" in outcome.error["message"]


@pytest.mark.parametrize("text", ["[repositories", "repositories = 1", "[repositories.a]\n", ""])
def test_a_config_file_that_cannot_be_used(icectl: Icectl, config: Path, text: str) -> None:
    config.write_text(text)
    outcome = icectl("maintain", "--all", "--yes", "--json")
    assert (outcome.code, outcome.error["kind"]) == (2, "usage")
    assert str(config) in outcome.error["message"] + outcome.error["hint"]


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("location = ''", "location"),
        ("location = 'x'\nstorage_options = 1", "storage_options"),
        ("location = 'x'\npolicies = 1", "policies"),
    ],
)
def test_a_wrong_value_of_a_repository_is_named(
    icectl: Icectl, config: Path, table: str, key: str
) -> None:
    """An empty location would be the directory of the config file."""
    maintenance = "{expire = 'short', gc_older_than = '7d'}"
    config.write_text(f"[repositories.a]\n{table}\nmaintenance = {maintenance}\n")
    outcome = icectl("maintain", "--all", "--yes", "--json")
    assert (outcome.code, outcome.error["kind"], outcome.out) == (2, "usage", "")
    assert key in outcome.error["message"]


# ── choosing ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def some(config: Path) -> Path:
    tables = (
        f'[repositories.{name}]\nlocation = "nowhere/{name}"\nmaintenance = {{validate = "refs"}}\n'
        for name in ("lab-1", "weather", "lab-2")
    )
    config.write_text("".join(tables) + '[repositories.plain]\nlocation = "nowhere"\n')
    return config


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--all", ["lab-1", "weather", "lab-2"]),
        ("weather", ["weather"]),
        ("weather weather w*", ["weather"]),
        ("lab-*", ["lab-1", "lab-2"]),
        ("* --dry-run", ["lab-1", "weather", "lab-2"]),
        ("weather lab-?", ["lab-1", "weather", "lab-2"]),
    ],
)
def test_names_and_globs(icectl: Icectl, some: Path, words: str, expected: list[str]) -> None:
    outcome = icectl("maintain", *words.split(), "--yes", "--json")
    assert outcome.code == 10  # none of them exists
    assert [one["name"] for one in outcome.document["repositories"]] == expected
    for one in outcome.document["repositories"]:
        assert one["location"] == f"{some.parent}/nowhere/{one['name']}"
        assert (one["exit_code"], one["error"]["kind"]) == (10, "repository_not_found")
        assert "did you mean" not in one["error"]["hint"]


@pytest.mark.parametrize(
    "words",
    [
        "",
        "unknown",
        "we*ther x*",
        "plain",
        "pl*",
        "weather --all",
        "./weather",
        "--jobs 0 --all",
        "--all --metrics -",
    ],
)
def test_wrong_choices(icectl: Icectl, some: Path, words: str) -> None:
    outcome = icectl("maintain", *words.split(), "--yes", "--json")
    assert (outcome.code, outcome.error["kind"], outcome.out) == (2, "usage", "")


def test_a_repository_before_the_command_is_refused(icectl: Icectl, some: Path) -> None:
    outcome = icectl("-r", "plain", "maintain", "weather", "--yes", "--json")
    assert (outcome.code, outcome.error["kind"], outcome.out) == (2, "usage", "")


def test_a_directory_of_the_same_name_needs_no_note(
    icectl: Icectl, some: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note would suggest a path, which is not a choice here."""
    (tmp_path / "weather").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "./weather" not in icectl("maintain", "weather", "--yes").err


@pytest.mark.parametrize("name", ["./x", ""])
def test_a_name_that_is_not_one_is_never_opened(icectl: Icectl, config: Path, name: str) -> None:
    config.write_text(
        f'[repositories."{name}"]\nlocation = "y"\nmaintenance = {{validate = "refs"}}\n'
    )
    outcome = icectl("maintain", "--all", "--yes", "--json")
    assert (outcome.code, outcome.error["kind"], outcome.out) == (2, "usage", "")


def test_confirmation_without_a_terminal(icectl: Icectl, some: Path) -> None:
    outcome = icectl("maintain", "--all", "--json")
    assert (outcome.code, outcome.error["kind"]) == (16, "refused")
    assert "icectl maintain --all --json --yes" in outcome.error["hint"]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([0, 0], 0),
        ([0, 13, 14], 3),
        ([3], 3),
        ([11], 11),
        ([13, 14, 10], 14),
        ([0, 70], 70),
        ([0, 130, 13], 130),
        ([130, 70], 70),
    ],
)
def test_the_exit_code_of_all(codes: list[int], expected: int) -> None:
    assert combined_exit_code(codes) == expected
