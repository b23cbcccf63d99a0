"""A repo file that decodes well and is wrong: what no operation released stops the run."""

from __future__ import annotations

import datetime
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from icectl.errors import FormatError
from icectl.format.envelope import decode_envelope
from icectl.format.repo import encode_repo
from icectl.model.repo import Ref, RepoInfo
from icectl.pipeline.objects import ObjectKind
from icectl.repository import past
from icectl.repository.history import State, state_of
from icectl.repository.ops_log import read_repo
from icectl.storage.local import LocalStorage
from tests.failures import raises
from tests.gc.damaged_states import (
    bend_parent,
    check_every_bit,
    check_refused,
    damage_by_chance,
    decide,
    lose_branch,
    move_branch_back,
)
from tests.gc.repositories import (
    age_all,
    collect,
    files,
    ic_random_name,
    live,
    messy_repository,
    now,
    random_repository,
)
from tests.official import built, copied, ic, open_official
from tests.official.histories import commit, create
from tests.repetition import repeated


def forget_pruned_logs(info: RepoInfo) -> RepoInfo:
    assert any(snapshot.pruned_ancestor_tx_logs for snapshot in info.snapshots)
    return replace(
        info,
        snapshots=tuple(
            replace(snapshot, pruned_ancestor_tx_logs=None) for snapshot in info.snapshots
        ),
    )


@pytest.mark.parametrize("later", [False, True], ids=["newest", "writers went on"])
@pytest.mark.parametrize("damage", [bend_parent, move_branch_back, lose_branch, forget_pruned_logs])
def test_unexplained_release(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    damage: Callable[[RepoInfo], RepoInfo],
    later: bool,
) -> None:
    mine = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "repo")
    info = read_repo(LocalStorage(mine))
    (mine / "repo").write_bytes(encode_repo(damage(info)))
    if later:
        repo = open_official(mine)
        for number in range(2):
            with commit(repo, f"after the damage {number}") as root:
                root.attrs["number"] = number
        repo.create_branch("gone", repo.lookup_branch("main"))
        repo.delete_branch("gone")
    before = files(mine)
    with raises(FormatError, path="repo", remedy="compare-repo-file") as caught:
        collect(mine)
    assert caught.value.exit_code == 13
    assert files(mine) == before


def test_lost_backup_stops_unless_it_is_known(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mine = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "repo")
    *backups, _ = sorted((mine / "overwritten").iterdir())
    for path in backups:
        path.unlink()
    with raises(FormatError, remedy="restore-or-excuse-backup") as caught:
        collect(mine)
    names = frozenset(f"overwritten/{path.name}" for path in backups)
    assert caught.value.path in names
    _, deleted = collect(mine, known_missing=names)
    assert sum(deleted.count.values()) > 0


@pytest.mark.parametrize(
    "options", [{"delete_expired_branches": True}, {"delete_expired_tags": True}]
)
def test_expiration_deletes_a_ref_and_another_one_keeps_its_snapshot(
    tmp_path: Path, options: dict[str, bool]
) -> None:
    repo = create(tmp_path / "repo", 2)
    repo.create_branch("side", repo.lookup_branch("main"))
    for number in range(3):
        with commit(repo, f"old {number}", branch="side") as root:
            root.attrs["number"] = number
    repo.create_tag("release", repo.lookup_branch("side"))
    for number in range(2):
        with commit(repo, f"new {number}") as root:
            root.attrs["number"] = number
    tip = repo.lookup_snapshot(repo.lookup_branch("main"))
    assert repo.expire_snapshots(tip.written_at, **options)
    assert len(repo.list_branches() | repo.list_tags()) == 2
    before = live(tmp_path / "repo")
    _, deleted = collect(tmp_path / "repo")
    assert deleted.count[ObjectKind.SNAPSHOT] > 0
    assert live(tmp_path / "repo") == before


WEEK = 7 * 86400 * 1_000_000


def truncate(where: Path) -> None:
    """Cut the ops log a week ago."""
    old = now() - WEEK
    collect(where, old, backups_older_than=old, truncate_ops_log=True)


def test_expiration_after_the_log_was_cut(tmp_path: Path) -> None:
    """It released what was committed before the log begins."""
    repo = create(tmp_path / "repo")
    for number in range(5):
        with commit(repo, f"old {number}") as root:
            root.attrs["number"] = number
    age_all(tmp_path / "repo", 40 * 86400)
    with commit(repo, "young") as root:
        root.attrs["number"] = 9
    truncate(tmp_path / "repo")
    repo = open_official(tmp_path / "repo")
    cutoff = repo.lookup_snapshot(repo.lookup_branch("main")).written_at
    assert len(repo.expire_snapshots(cutoff)) == 5
    before = live(tmp_path / "repo")
    _, deleted = collect(tmp_path / "repo")
    assert deleted.count[ObjectKind.SNAPSHOT] == 5
    assert live(tmp_path / "repo") == before


@pytest.mark.parametrize("updates", repeated([1, 4, 5, 8], [2, 3, 6, 7]))
def test_a_log_that_overflows_after_it_was_cut(tmp_path: Path, updates: int) -> None:
    """The copies from before the cut name others that were cleared."""
    where = tmp_path / "repo"
    repo = create(where, num_updates_per_repo_info_file=5)
    for number in range(8):
        with commit(repo, f"old {number}") as root:
            root.attrs["number"] = number
    age_all(where, 40 * 86400)
    repo = open_official(where)
    for number in range(2):
        with commit(repo, f"young {number}") as root:
            root.attrs["number"] = number
    truncate(where)
    repo = open_official(where)
    for number in range(updates):
        with commit(repo, f"new {number}") as root:
            root.attrs["number"] = number
    repo.reset_branch("main", list(repo.ancestry(branch="main"))[1].id)
    with commit(repo, "newest") as root:
        root.attrs["number"] = -1
    before = live(where)
    damaged = copied(where, tmp_path / "damaged")
    _, deleted = collect(where)
    assert deleted.count[ObjectKind.SNAPSHOT] == 1
    assert live(where) == before
    # What is hidden by damage is found all the same.
    info = read_repo(LocalStorage(damaged))
    (damaged / "repo").write_bytes(encode_repo(move_branch_back(info, "main")))
    with raises(FormatError, path="repo", remedy="compare-repo-file"):
        collect(damaged)


def release_many(repo: ic.Repository, way: str, number: int) -> None:
    """So many snapshots more that nothing leads to."""
    with commit(repo, "kept") as root:
        root.attrs["number"] = -1
    tip = repo.lookup_branch("main")
    for count in range(number):
        if way == "delete":
            repo.create_branch(f"side-{count}", tip)
        branch = f"side-{count}" if way == "delete" else "main"
        with commit(repo, f"{way} {count}", branch=branch, amend=way == "amend") as root:
            root.attrs["number"] = count
        if way == "delete":
            repo.delete_branch(branch)
        if way == "reset":
            repo.reset_branch("main", tip)


@pytest.mark.parametrize("way", ["amend", "delete", "reset"])
def test_many_releases_are_explained_by_few_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Reading the states around each would take the square of their number."""
    where = tmp_path / "repo"
    repo = create(where)
    release_many(repo, way, 20)
    repo.expire_snapshots(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
    release_many(repo, way, 20)
    before = live(where)
    read: list[RepoInfo] = []

    def counted(info: RepoInfo) -> State:
        read.append(info)
        return state_of(info)

    monkeypatch.setattr(past, "state_of", counted)
    _, deleted = collect(where)
    assert deleted.count[ObjectKind.SNAPSHOT] == 40
    assert len(read) < 10
    assert live(where) == before


def take_back(repo: ic.Repository, way: str, snapshot_id: str) -> None:
    """Let the ref `rescued` lead to the snapshot."""
    if way == "tag":
        repo.create_tag("rescued", snapshot_id)
    elif way == "branch":
        repo.create_branch("rescued", snapshot_id)
    else:
        repo.create_branch("rescued", repo.lookup_branch("main"))
        repo.reset_branch("rescued", snapshot_id)


def rescued_repository(where: Path, way: str, later: int) -> None:
    """Commits that a reset let go and a ref took back; then some operations more."""
    repo = create(where)
    for number in range(4):
        with commit(repo, f"{number}") as root:
            root.attrs["number"] = number
    tip, kept = (list(repo.ancestry(branch="main"))[row].id for row in (0, 2))
    repo.reset_branch("main", kept)
    with commit(repo, "other") as root:
        root.attrs["number"] = -1
    take_back(repo, way, tip)
    for number in range(later):
        with commit(repo, f"later {number}") as root:
            root.attrs["number"] = number


WAYS = pytest.mark.parametrize("way", ["branch", "tag", "reset"])


@WAYS
@pytest.mark.parametrize("carried", [False, True], ids=["newest", "writers went on"])
def test_a_ref_that_took_snapshots_back_is_bent(tmp_path: Path, way: str, carried: bool) -> None:
    """The reset explains why they were let go, but not why they are again."""
    where = tmp_path / "repo"
    rescued_repository(where, way, later=2)
    info = read_repo(LocalStorage(where))
    main = next(ref.snapshot_id for ref in info.branches if ref.name == "main")

    def bend(refs: tuple[Ref, ...]) -> tuple[Ref, ...]:
        return tuple(
            replace(ref, snapshot_id=main) if ref.name == "rescued" else ref for ref in refs
        )

    bent = replace(info, branches=bend(info.branches), tags=bend(info.tags))
    (where / "repo").write_bytes(encode_repo(bent))
    check_refused(where, commits=2 if carried else 0)


@WAYS
@pytest.mark.parametrize("later", [0, 3])
def test_some_bits_of_repo(tmp_path: Path, way: str, later: int) -> None:
    """Where a ref points since the last operation is stored once: only its packing proves it."""
    rescued_repository(tmp_path / "repo", way, later)
    check_every_bit(tmp_path / "repo", 61)


@pytest.mark.slow
@WAYS
@pytest.mark.parametrize("later", [0, 3])
def test_every_bit_of_repo(tmp_path: Path, way: str, later: int) -> None:
    rescued_repository(tmp_path / "repo", way, later)
    check_every_bit(tmp_path / "repo", 1)


@WAYS
def test_the_last_operation_is_told_by_one_file(tmp_path: Path, way: str) -> None:
    """Unless it is packed as no writer packs, it is believed; and any change confirms it."""
    where = tmp_path / "repo"
    rescued_repository(where, way, later=0)
    before, there = live(where), files(where)
    data = (where / "repo").read_bytes()
    payload = decode_envelope(data).payload
    odd = zstandard.ZstdCompressor(write_checksum=True)
    (where / "repo").write_bytes(data[:39] + odd.compress(payload))
    snapshots = where / "snapshots"
    shutil.copy(next(snapshots.iterdir()), snapshots / ic_random_name())
    with raises(FormatError, path="repo", remedy="confirm-last-change"):
        collect(where)
    open_official(where).create_tag("confirmed", open_official(where).lookup_branch("main"))
    collect(where)
    assert files(where) == there
    assert live(where)["snapshots"] == before["snapshots"]


@pytest.mark.parametrize("parent", [None, -1], ids=["no parent", "a circle"])
def test_bent_ancestry_of_a_repository_without_copies(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, parent: int | None
) -> None:
    """As a migration leaves it."""
    where = copied(built(tmp_path_factory, messy_repository, 2), tmp_path / "repo")
    info = read_repo(LocalStorage(where))
    parents = {one.id: one.parent_id for one in info.snapshots}
    line = [next(ref.snapshot_id for ref in info.branches if ref.name == "main")]
    while (next_id := parents[line[-1]]) is not None:
        line.append(next_id)
    bent = {line[-2]: None if parent is None else line[0]}
    snapshots = tuple(
        replace(one, parent_id=bent.get(one.id, one.parent_id)) for one in info.snapshots
    )
    (where / "repo").write_bytes(encode_repo(replace(info, snapshots=snapshots)))
    with pytest.raises(FormatError) as caught:
        collect(where)
    assert caught.value.code == ("ICE0009" if parent is None else "ICE0006")


@pytest.mark.parametrize("seed", repeated([None, 1], [2, 3]))
def test_a_run_of_operations_is_judged_like_each_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int | None
) -> None:
    where = tmp_path / "repo"
    if seed is None:
        messy_repository(where)
    else:
        random_repository(where, 6000 + seed, 40, 2)
    info = read_repo(LocalStorage(where))
    chance = random.Random(seed)
    refused = planned = 0
    for number in range(60):
        (where / "repo").write_bytes(
            encode_repo(damage_by_chance(info, chance) if number else info)
        )
        at_once = decide(where)
        with monkeypatch.context() as closely:
            closely.setattr(past.PastStates, "end_of_run", lambda log, start, releases: start)
            assert decide(where) == at_once
        refused += isinstance(at_once, str)
        planned += isinstance(at_once, set)
    assert refused and planned


def maintained_repository(where: Path, chance: random.Random) -> None:
    """Commits, refs of all kinds and expirations, as years of maintenance leave them."""
    repo = create(where)
    moments = [datetime.datetime.now(datetime.UTC)]
    for number in range(14):
        with commit(repo, f"{number}") as root:
            root.attrs["number"] = number
        moments.append(datetime.datetime.now(datetime.UTC))
        maintain(repo, chance, number, moments[max(0, len(moments) - 4)])


def maintain(
    repo: ic.Repository, chance: random.Random, number: int, cutoff: datetime.datetime
) -> None:
    ancestry = list(repo.ancestry(branch="main"))
    some = chance.choice(ancestry).id
    match chance.randrange(8):
        case 0:
            repo.create_tag(f"tag {number}", some)
        case 1:
            repo.create_branch(f"branch {number}", some)
        case 2:
            with commit(repo, f"amended {number}", amend=True) as root:
                root.attrs["number"] = number
        case 3:
            repo.reset_branch("main", ancestry[min(1, len(ancestry) - 2)].id)
        case 4:
            branches = sorted(repo.list_branches() - {"main"})
            if branches:
                repo.delete_branch(branches[0])
        case 5:
            repo.expire_snapshots(
                cutoff,
                delete_expired_branches=chance.random() < 0.5,
                delete_expired_tags=chance.random() < 0.5,
            )
        case 6:
            repo.expire_snapshots(cutoff)
            repo.garbage_collect(cutoff)
        case _:
            repo.expire_snapshots(cutoff)


def carry_on(where: Path, chance: random.Random) -> None:
    """Writers that notice no damage: they commit, create tags and expire what is not a tip."""
    for number in range(chance.randrange(4)):
        try:
            repo = open_official(where)
            with commit(repo, "after the damage") as root:
                root.attrs["number"] = number
            if chance.random() < 0.3:
                repo.create_tag(f"later {number}", repo.lookup_branch("main"))
            if chance.random() < 0.5:
                repo.expire_snapshots(datetime.datetime.now(datetime.UTC))
        except BaseException as error:  # also a panic of the official package, at the damage
            if isinstance(error, KeyboardInterrupt):
                raise
            return


@pytest.mark.parametrize("seed", repeated(range(1, 4), range(4, 7)))
def test_damage_among_expirations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """What each operation alone explains, all of them explain at once.

    They may explain more: what the damage touched may have been released since.
    """
    chance = random.Random(seed)
    source = tmp_path / "source"
    maintained_repository(source, chance)
    info = read_repo(LocalStorage(source))
    tips = {
        f"snapshots/{ref.snapshot_id}" for ref in (*info.branches, *info.tags) if ref.name != "main"
    }
    where = tmp_path / "repo"
    outcomes = set()
    for number in range(20):
        shutil.rmtree(where, ignore_errors=True)
        shutil.copytree(source, where)
        damaged = damage_by_chance(info, chance) if number else info
        (where / "repo").write_bytes(encode_repo(damaged))
        if not any(state_of(damaged).cycles()):  # the official package follows one for ever
            carry_on(where, chance)
        at_once = decide(where)
        with monkeypatch.context() as closely:
            closely.setattr(past.PastStates, "end_of_run", lambda log, start, releases: start)
            one_by_one = decide(where)
        if isinstance(one_by_one, str):
            assert isinstance(at_once, str) or not at_once & tips
        else:
            assert at_once == one_by_one
        outcomes.add(isinstance(at_once, str))
    assert outcomes == {True, False}
