"""`--at-op`: what a reading command prints is what it printed then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from icectl.cli.app import root
from icectl.cli.completion import BY_METAVAR
from icectl.cli.context import CommandContext
from icectl.format.repo import decode_repo
from icectl.render.text import format_time
from tests.gc.place import Place
from tests.official import copied, linear_history

READS = [
    "log",
    "log --all --stat",
    "show",
    "ls",
    "diff main~1 main",
    "branch list",
    "tag list",
    "stats --by branches",
    "config get",
    "metadata get",
    "flags list",
    "status",
    "validate --level chunks",
]


def operate(place: Place) -> list[bytes]:
    """Operations of every kind; the repo file after each of them, newest first."""
    repo = place.official()
    states: list[bytes] = []

    def note() -> None:
        states.insert(0, (place.where / "repo").read_bytes())

    note()
    for number in range(4):
        place.commit(number)
        note()
    repo = place.official()
    for step in (
        lambda: repo.create_tag("v1", list(repo.ancestry(branch="main"))[1].id),
        lambda: repo.create_branch("dev", repo.lookup_branch("main")),
        lambda: repo.delete_branch("dev"),
        lambda: repo.create_tag("v2", repo.lookup_branch("main")),
        lambda: repo.delete_tag("v2"),
        lambda: repo.update_metadata({"owner": "us"}),
        lambda: repo.set_feature_flag("move_node", False),
        lambda: repo.reset_branch("main", list(repo.ancestry(branch="main"))[1].id),
        lambda: place.run("status", "set", "read-only", "--reason", "a pause"),
        lambda: place.run("status", "set", "online"),
        lambda: repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_tag("v1")).written_at),
    ):
        step()
        note()
    return states


@pytest.mark.parametrize("updates_per_file", [5, 1000])
def test_what_was_printed_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], updates_per_file: int
) -> None:
    place = Place(tmp_path / "repo", capsys, num_updates_per_repo_info_file=updates_per_file)
    states = operate(place)
    backups = [update["backup_path"] for update in place.run("ops-log")[1]["updates"]]
    assert len(backups) >= len(states)
    then = Place.existing(copied(place.where, tmp_path / "then"), capsys)
    for number, state in enumerate(states):
        (then.where / "repo").write_bytes(state)
        for call in READS if number % 5 == 0 else READS[:1]:
            if call.startswith("diff") and state == states[-1]:
                continue
            expected = then.run(*call.split())
            names = [f"@{number}"]
            if number:
                names += [backups[number], f"overwritten/{backups[number]}", backups[number][-9:]]
                names.append(format_time(decode_repo(state).latest_updates[0].updated_at))
            for name in names if call == "log" else names[:1]:
                found = place.run(*call.split(), "--at-op", name)
                if call.startswith("validate"):
                    # What later operations left is garbage here, and damage nowhere.
                    assert found[0] == 0 and found[1]["checked"] == expected[1]["checked"]
                    continue
                assert without_place(found) == without_place(expected), (call, name)


def without_place(outcome: tuple[int, dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    code, document = outcome
    return code, {key: value for key, value in document.items() if key != "location"}


def test_tables_of_the_past(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    place = Place(tmp_path / "repo", capsys)
    operate(place)
    then = copied(place.where, tmp_path / "then")
    for number in (2, 7):
        name = place.run("ops-log")[1]["updates"][number]["backup_path"]
        (then / "repo").write_bytes((place.where / "overwritten" / name).read_bytes())
        other = Place.existing(then, capsys)
        tables = ["refs", "snapshots", "nodes", "chunk_refs", "ops_log"]
        to = tmp_path / f"now{number}", tmp_path / f"then{number}"
        for target, where, words in ((to[0], place, ["--at-op", f"@{number}"]), (to[1], other, [])):
            code, document = where.run(
                "export", *tables, "--to", str(target), "--format", "jsonl", *words
            )
            assert code == 0, document
        for table in tables:
            one, two = (
                [path.read_text() for path in sorted((target / table).iterdir())] for target in to
            )
            assert one == two, table


def test_what_an_operation_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path / "repo", capsys)
    states = [*map(decode_repo, operate(place))]
    kinds = [update["kind"] for update in place.run("ops-log")[1]["updates"]]

    def show(kind: str) -> dict[str, Any]:
        number = kinds.index(kind)
        code, document = place.run("ops-log", "show", f"@{number}")
        assert code == 0 and document["operation"]["op"] == number
        assert document["operation"]["undoable"] and document["written_together"] == []
        return {key: value for key, value in document["changes"].items() if value}

    tags = states[kinds.index("tag_deleted") + 1].tags
    tag = next(ref.snapshot_id for ref in tags if ref.name == "v2")
    assert show("tag_deleted") == {
        "tags": [{"name": "v2", "snapshot_id": None, "previous_snapshot_id": str(tag)}]
    }
    assert show("metadata_changed") == {
        "metadata": [{"key": "owner", "value": "us", "previous_value": None}]
    }
    assert show("feature_flag_changed") == {
        "flags": [{"key": "move_node", "value": False, "previous_value": None}]
    }
    assert show("repo_status_changed")["status"]
    committed = show("new_commit")
    assert len(committed["added_snapshots"]) == 1 and committed.keys() == {
        "branches",
        "added_snapshots",
    }
    expired = show("expiration_ran")
    number = kinds.index("expiration_ran")
    before, after = ({one.id for one in states[n].snapshots} for n in (number + 1, number))
    assert {*expired["removed_snapshots"]} == {str(one) for one in before - after}
    assert all(one["num_pruned_logs"] for one in expired["reparented_snapshots"])
    code, document = place.run("ops-log", "show", f"@{len(kinds) - 1}")
    assert (code, document["error"]["kind"]) == (12, "ref_not_found")


def test_states_that_are_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path / "repo", capsys)
    place.commit(*range(5))
    oldest_first = place.backups()[::-1]
    (place.where / "overwritten" / oldest_first[3]).unlink()
    code, document = place.run("log", "--at-op", oldest_first[3])
    assert (code, document["error"]["kind"]) == (13, "damaged")
    for name in oldest_first[:3]:
        (place.where / "overwritten" / name).unlink()
    code, document = place.run("log", "--at-op", oldest_first[3])
    assert (code, document["error"]["kind"]) == (12, "ref_not_found")
    updates = place.run("ops-log")[1]["updates"]
    assert [update["undoable"] for update in updates] == [True, True, *[False] * 5]
    for name in ("@7", "2001-01-01"):
        code, document = place.run("log", "--at-op", name)
        assert (code, document["error"]["kind"]) == (12, "ref_not_found"), name
    for name in ("nonsense", "0" * 20):
        code, document = place.run("log", "--at-op", name)
        assert (code, document["error"]["kind"]) == (2, "usage"), name


def test_spec_version_1_keeps_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = tmp_path / "repo"
    linear_history(where, 2, 1)
    place = Place.existing(where, capsys)
    for words in (("log", "--at-op", "@1"), ("ops-log", "show", "@0"), ("ops-log",)):
        code, document = place.run(*words)
        assert (code, document["error"]["kind"]) == (15, "unsupported")


def test_operations_are_completed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path / "repo", capsys)
    place.commit(0, 1)
    context = CommandContext({})
    words = ["-r", str(place.where), "undo"]
    with root().make_context("icectl", words, obj=context, resilient_parsing=True) as ctx:
        assert BY_METAVAR["OP"](ctx, "@")[:3] == ["@0", "@1", "@2"]
        found = BY_METAVAR["OP"](ctx, "over")
    assert {*found} == {f"overwritten/{name}" for name in place.backups()}
