"""Operations on a place, their undo, and what must hold afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.gc.place import Place
from tests.gc.repositories import live, official_gc
from tests.official import read_everything, zarr
from tests.official.histories import commit

Do = Callable[[Place], object]


def amend(place: Place) -> None:
    with commit(place.official(), "amended", amend=True) as root:
        root.attrs["amended"] = True


def flush(place: Place) -> None:
    session = place.official().writable_session("main")
    zarr.open_group(session.store, mode="a").attrs["flushed"] = True
    session.flush("detached")


def ancestor(place: Place, number: int) -> str:
    return list(place.official().ancestry(branch="main"))[number].id


def reset(place: Place) -> None:
    place.official().reset_branch("main", ancestor(place, 2))


def expire(place: Place, **options: bool) -> None:
    repo = place.official()
    released = repo.expire_snapshots(repo.lookup_snapshot(ancestor(place, 1)).written_at, **options)
    assert released


def save_config(place: Place) -> None:
    config = place.official().config
    config.inline_chunk_threshold_bytes = 1234
    place.official().reopen(config=config).save_config()


KINDS: dict[str, Do] = {
    "commit": lambda place: place.commit(77),
    "amend": amend,
    "flush": flush,
    "branch_created": lambda place: place.official().create_branch("new", ancestor(place, 1)),
    "branch_deleted": lambda place: place.official().delete_branch("side"),
    "branch_reset": reset,
    "tag_created": lambda place: place.official().create_tag("new", ancestor(place, 1)),
    "tag_deleted": lambda place: place.official().delete_tag("v1"),
    "metadata": lambda place: place.official().update_metadata({"owner": "you", "more": [1, None]}),
    "metadata_unset": lambda place: place.run("metadata", "unset", "owner"),
    "flag": lambda place: place.official().set_feature_flag("move_node", False),
    "config": save_config,
    "status": lambda place: place.run("status", "set", "read-only", "--reason", "why"),
    "expire": expire,
    "expire_refs": lambda place: expire(
        place, delete_expired_branches=True, delete_expired_tags=True
    ),
    "our_expire": lambda place: place.run("expire", "--keep-last", "2", "--yes"),
}


def undo(place: Place, *words: str) -> dict[str, Any]:
    code, document = place.run("undo", "--yes", *words)
    assert code == 0, document
    assert document["missing"] == []
    return document


def check_sound(place: Place) -> None:
    code, document = place.run("validate", "--level", "chunks", "--fail-on", "warning")
    assert code == 0, document["findings"]


def check_usable(place: Place) -> None:
    """Every tool accepts the repository, and the official package goes on."""
    check_sound(place)
    before = live(place.where)
    code, document = place.run("gc", "--older-than", "0s", "--allow-recent", "--yes")
    assert code == 0, document
    assert live(place.where) == before
    repo = place.official()
    for branch in sorted(repo.list_branches()):
        with commit(repo, f"after the undo on {branch}", branch=branch) as root:
            root.attrs["after"] = branch
        line = list(repo.ancestry(branch=branch))
        repo.diff(from_snapshot_id=line[-1].id, to_snapshot_id=line[0].id)
    official_gc(place.where)
    repo.expire_snapshots(repo.lookup_snapshot(ancestor(place, 1)).written_at)
    check_sound(place)
    assert not any(
        value.startswith("!")
        for content in read_everything(place.official())["snapshots"].values()
        for value in content.values()
    )
