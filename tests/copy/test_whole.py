"""Whole copies, and bringing them up to date, judged by the official package."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.errors import FormatError, RefusedError, UsageError
from icectl.format.transaction_log import decode_transaction_log, encode_transaction_log
from icectl.model.ids import SnapshotId
from icectl.pipeline.engine import ChooseEngine
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage
from tests.command_line import Icectl
from tests.copy.repositories import assert_equal, assert_sound, copy
from tests.gc.repositories import collect, files, messy_repository, official_gc, random_repository
from tests.official import build_zoo, copied, ic, open_official
from tests.official.histories import RandomHistory, commit, create, linear_history
from tests.patience import PATIENCE_SECONDS

KINDS = ("chunks", "manifests", "transactions", "snapshots")
LOG_DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "flipped": lambda data: data[:37] + bytes([data[37] ^ 8]) + data[38:],
    "another": lambda data: encode_transaction_log(
        replace(decode_transaction_log(data), id=SnapshotId(bytes(12)))
    ),
}
SOURCES = [
    pytest.param((messy_repository, 1), id="messy-1"),
    pytest.param((messy_repository, 2), id="messy-2"),
    pytest.param((build_zoo, 1), id="zoo-1"),
    pytest.param((build_zoo, 2), id="zoo-2"),
    *(pytest.param((random_repository, 7100 + n, 40, 2), id=f"random-{n}") for n in range(4)),
    pytest.param((random_repository, 7200, 40, 1), id="random-v1"),
]


@pytest.mark.parametrize("source", SOURCES, indirect=True)
def test_official_reads_are_equal(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    planned = copy(source, target, dry_run=True)
    assert not target.exists()
    done = copy(source, target, verify="bytes")
    assert done.copied == planned.copied
    assert done.objects == len(files(target))
    assert_equal(source, target)
    assert_sound(target)
    assert copy(source, target).is_up_to_date
    assert not copy(source, target, verify="sizes").objects


@pytest.mark.parametrize("source", SOURCES, indirect=True)
def test_the_official_package_goes_on(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    copy(source, target)
    with commit(open_official(target), "on the copy") as root:
        root.attrs["x"] = 1
    assert_sound(target)
    repo = open_official(target)
    if repo.spec_version >= 2:
        assert [*repo.ops_log()]
    repo.expire_snapshots(datetime.now(UTC))
    # Both collections find the same garbage, and neither refuses the copy.
    twin = copied(target, tmp_path / "twin")
    collect(target)
    official_gc(twin)
    assert files(target) == files(twin)
    assert_sound(target)


@pytest.mark.parametrize("spec_version", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_a_copy_follows_its_source(seed: int, spec_version: int, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    history = RandomHistory(create(source, spec_version), 7300 + seed)
    for _ in range(5):
        for _ in range(6):
            steps = ["commit", "commit", "branch", "tag", "reset", "delete_tag"]
            # Without an ops log, it is unknown that the source once had what it collected.
            steps += ["expire", "collect"] if spec_version == 2 else []
            getattr(history, f"step_{history.random.choice(steps)}")()
        copy(source, target)
        assert_equal(source, target)
        assert_sound(target)
        assert copy(source, target).is_up_to_date
    collect(target)
    assert_sound(target)


@pytest.mark.parametrize("by_official", [False, True])
def test_both_are_upgraded(by_official: bool, tmp_path: Path) -> None:
    """The config of both has the same values in other bytes, which no entry has to explain."""
    source, target = tmp_path / "source", tmp_path / "target"
    repo = linear_history(source, 4, 1)
    for name in ("b", "a", "c"):
        repo.create_tag(name, repo.lookup_branch("main"))
    repo.delete_tag("c")
    copy(source, target)
    assert run(["upgrade", "-r", str(target), "--yes"], {}) == 0
    if by_official:
        ic.upgrade_icechunk_repository(open_official(source), dry_run=False)
    else:
        assert run(["upgrade", "-r", str(source), "--yes"], {}) == 0
    repo = open_official(source)
    repo.delete_tag("b")
    with commit(repo, "more") as root:
        root.attrs["x"] = 1
    copy(source, target)
    assert_equal(source, target)
    assert_sound(target)
    repo.delete_tag("a")
    copy(source, target)
    collect(target)
    assert_sound(target)


def test_stored_storage_settings_are_dropped(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    repo = create(source)
    config = ic.Repository.fetch_config(ic.local_filesystem_storage(str(source)))
    assert config is not None
    config.storage = ic.StorageSettings(unsafe_use_conditional_update=False)
    config.inline_chunk_threshold_bytes = 77
    repo = ic.Repository.open(ic.local_filesystem_storage(str(source)), config=config)
    repo.save_config()
    copy(source, target)
    found = ic.Repository.fetch_config(ic.local_filesystem_storage(str(target)))
    assert found is not None
    assert found.inline_chunk_threshold_bytes == 77
    assert b"unsafe_use" not in json.dumps(
        str(found.storage and found.storage.unsafe_use_conditional_update)
    ).encode() and (found.storage is None or found.storage.unsafe_use_conditional_update is None)


def test_a_copy_of_a_read_only_repository_is_online(source: Path, tmp_path: Path) -> None:
    assert run(["status", "set", "read-only", "-r", str(source)], {}) == 0
    done = copy(source, tmp_path / "target")
    assert any("online" in note for note in done.notes)
    with commit(open_official(tmp_path / "target"), "on the copy") as root:
        root.attrs["x"] = 1


def test_a_target_that_is_read_only(source: Path, tmp_path: Path, icectl: Icectl) -> None:
    """The hint names the target, and nothing is copied."""
    target = tmp_path / "target"
    copy(source, target)
    assert run(["status", "set", "read-only", "-r", str(target)], {}) == 0
    assert copy(source, target).is_up_to_date
    with commit(open_official(source), "more") as root:
        root["a"][:] = 99
    before = files(target)
    refused = icectl("copy", str(source), str(target))
    assert refused.code == 16
    assert str(target) in refused.err and str(source) not in refused.err
    assert files(target) == before


class TestTargetsThatOthersChanged:
    def change(self, target: Path, how: str) -> None:
        repo = open_official(target)
        if how == "commit":
            with commit(repo, "on the copy") as root:
                root.attrs["x"] = 1
        elif how == "branch":
            repo.create_branch("mine", repo.lookup_branch("main"))
        else:
            repo.create_tag("mine", repo.lookup_branch("main"))

    @pytest.mark.parametrize("how", ["commit", "branch", "tag"])
    def test_are_refused_unless_forced(self, how: str, source: Path, tmp_path: Path) -> None:
        target = tmp_path / "target"
        copy(source, target)
        self.change(target, how)
        with commit(open_official(source), "at the source") as root:
            root.attrs["y"] = 1
        before = (target / "repo").read_bytes()
        with pytest.raises(RefusedError):
            copy(source, target)
        assert (target / "repo").read_bytes() == before
        planned = copy(source, target, force=True, dry_run=True)
        assert planned.lost and (target / "repo").read_bytes() == before
        assert copy(source, target, force=True).lost == planned.lost
        assert_equal(source, target)
        assert_sound(target)
        assert copy(source, target).is_up_to_date
        collect(target)
        assert_sound(target)

    def test_a_deleted_tag_does_not_come_back(self, tmp_path: Path) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        repo = create(source)
        repo.create_tag("a", repo.lookup_branch("main"))
        copy(source, target)
        open_official(target).delete_tag("a")
        with pytest.raises(RefusedError):
            copy(source, target)
        assert not open_official(target).list_tags()
        assert copy(source, target, force=True).lost
        assert_equal(source, target)
        assert_sound(target)

    @pytest.mark.parametrize("version", [1, 2])
    @pytest.mark.parametrize("name", ["a", "ref.json", "ref.json.deleted"])
    def test_deleted_tags_stay_deleted(self, name: str, version: int, tmp_path: Path) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        repo = create(source, version)
        repo.create_tag(name, repo.lookup_branch("main"))
        repo.delete_tag(name)
        copy(source, target)
        assert open_repository(LocalStorage(target)).deleted_tags() == (name,)
        assert copy(source, target).is_up_to_date

    def test_a_tag_of_spec_version_1_stays_deleted(self, tmp_path: Path) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        repo = create(source, 1)
        repo.create_tag("a", repo.lookup_branch("main"))
        copy(source, target)
        open_official(target).delete_tag("a")
        with commit(repo, "more") as root:
            root.attrs["x"] = 1
        copy(source, target)
        assert open_official(target).lookup_branch("main") == repo.lookup_branch("main")
        assert not open_official(target).list_tags()
        assert copy(source, target).is_up_to_date

    def test_a_forced_copy_deletes_tags_of_spec_version_1(self, tmp_path: Path) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        repo = create(source, 1)
        copy(source, target)
        open_official(target).create_tag("mine", repo.lookup_branch("main"))
        with pytest.raises(RefusedError):
            copy(source, target)
        assert copy(source, target, force=True).lost
        assert not open_official(target).list_tags()
        assert copy(source, target).is_up_to_date

    def test_an_undone_deletion_is_followed(self, tmp_path: Path) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        repo = create(source)
        repo.create_tag("a", repo.lookup_branch("main"))
        copy(source, target)
        repo.delete_tag("a")
        copy(source, target)
        assert run(["undo", "-r", str(source), "--undelete-tag", "--yes"], {}) == 0
        copy(source, target)
        assert open_official(target).list_tags() == {"a"}
        assert_sound(target)

    @pytest.mark.parametrize("version", [1, 2])
    @pytest.mark.parametrize("is_empty", [False, True])
    def test_another_repository_is_refused(
        self, is_empty: bool, version: int, tmp_path: Path
    ) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        for place in (source, target):
            repo = create(place, version)
            if not is_empty:
                with commit(repo, "another") as root:
                    root.attrs["x"] = 1
        for force in (False, True):
            with pytest.raises(RefusedError):
                copy(source, target, force=force)

    def test_the_remains_of_an_interrupted_init_do_not_matter(
        self, source: Path, tmp_path: Path
    ) -> None:
        target = tmp_path / "target"
        create(target)
        (target / "repo").unlink()
        if (target / "overwritten").exists():
            with pytest.raises(RefusedError):  # it lost its repo file
                copy(source, target)
            shutil.rmtree(target / "overwritten")
        copy(source, target)
        assert_equal(source, target)
        assert_sound(target)

    def test_another_spec_version_is_refused(self, source: Path, tmp_path: Path) -> None:
        create(tmp_path / "target", 1)
        with pytest.raises(RefusedError):
            copy(source, tmp_path / "target")

    def test_a_directory_with_other_files_is_refused(self, source: Path, tmp_path: Path) -> None:
        (tmp_path / "target" / "photos").mkdir(parents=True)
        (tmp_path / "target" / "photos" / "a").touch()
        with pytest.raises(RefusedError):
            copy(source, tmp_path / "target")

    @pytest.mark.parametrize(
        "place", ["source", "source/inside", "source/../source", "link", "link/inside", "."]
    )
    def test_the_source_itself_is_refused(self, place: str, source: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(source)
        before = files(source)
        with pytest.raises(UsageError, match=r"the source"):
            copy(source, tmp_path / place)
        assert files(source) == before

    @pytest.mark.parametrize("place", ["mounted", "mounted/inside"])
    def test_the_source_by_a_mount_is_refused(
        self, place: str, source: Path, tmp_path: Path
    ) -> None:
        mounted = tmp_path / "mounted"
        mounted.mkdir()
        mount = ["mount", "--bind", str(source), str(mounted)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("only root mounts")
        before = files(source), (source / "repo").read_bytes()
        try:
            with pytest.raises(UsageError):
                copy(source, tmp_path / place)
        finally:
            subprocess.run(["umount", str(mounted)], check=True)
        assert (files(source), (source / "repo").read_bytes()) == before

    def test_hints_name_the_source_or_the_target(
        self, source: Path, tmp_path: Path, icectl: Icectl
    ) -> None:
        target = tmp_path / "my target"
        shutil.copytree(source, target)
        (target / "repo").write_bytes(b"")
        damaged = icectl("copy", str(source), str(target))
        assert damaged.code == 13
        assert f"the target {target} is damaged" in damaged.err
        assert f"`icectl repair -r '{target}'`" in damaged.err
        (source / "chunks").rename(tmp_path / "chunks")
        lost = icectl("copy", str(source), str(tmp_path / "new"))
        assert lost.code == 13
        assert f"`icectl validate --level chunks -r {source}`" in lost.err
        none = icectl("copy", str(source), str(tmp_path / "new"), "--branch", "nobody")
        assert none.code == 12
        assert f"`icectl branch list -r {source}`" in none.err

    def test_a_link_to_the_source_is_refused(self, source: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(source)
        for places in ((source, tmp_path / "link"), (tmp_path / "link", source)):
            with pytest.raises(UsageError):
                copy(*places)


class TestTargetsThatChangeMeanwhile:
    """After the copy was planned, and before it is published."""

    @pytest.fixture
    def meanwhile(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[Callable[[], object]], None]:
        sync = LocalStorage.sync

        def install(action: Callable[[], object]) -> None:
            actions = [action]

            def act_first(storage: LocalStorage) -> None:
                if actions:
                    actions.pop()()
                sync(storage)

            monkeypatch.setattr(LocalStorage, "sync", act_first)

        return install

    def test_by_a_collection(
        self, tmp_path: Path, meanwhile: Callable[[Callable[[], object]], None]
    ) -> None:
        """What the target had when the copy was planned is gone."""
        source, target = tmp_path / "source", tmp_path / "target"
        repo = create(source, inline_chunk_threshold_bytes=0)
        start = repo.lookup_branch("main")
        with commit(repo, "data") as root:
            root.create_array("a", shape=(64,), chunks=(16,), dtype="i8", compressors=None)[:] = 7
        tip = repo.lookup_branch("main")
        repo.reset_branch("main", start)
        copy(source, target)
        repo.reset_branch("main", tip)
        done = []
        meanwhile(lambda: done.append(collect(target)))
        copy(source, target)
        assert len(done) == 1
        assert_equal(source, target)
        assert_sound(target)

    @pytest.mark.parametrize("force", [False, True])
    @pytest.mark.parametrize("version", [1, 2])
    def test_by_a_commit(
        self,
        version: int,
        force: bool,
        tmp_path: Path,
        meanwhile: Callable[[Callable[[], object]], None],
    ) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        repo = linear_history(source, 2, version)
        copy(source, target)
        with commit(repo, "more") as root:
            root.attrs["x"] = 1

        def commit_there() -> None:
            with commit(open_official(target), "on the copy") as root:
                root.attrs["y"] = 1

        meanwhile(commit_there)
        if not force:
            with pytest.raises(RefusedError):
                copy(source, target)
            assert next(open_official(target).ancestry(branch="main")).message == "on the copy"
            return
        assert len(copy(source, target, force=True).lost) == 1
        assert_equal(source, target)
        assert_sound(target)

    def test_by_its_status(
        self,
        source: Path,
        tmp_path: Path,
        icectl: Icectl,
        meanwhile: Callable[[Callable[[], object]], None],
    ) -> None:
        target = tmp_path / "target"
        copy(source, target)
        with commit(open_official(source), "more") as root:
            root.attrs["x"] = 1
        meanwhile(lambda: run(["status", "set", "read-only", "-r", str(target)], {}))
        refused = icectl("copy", str(source), str(target))
        assert refused.code == 16
        assert str(target) in refused.err and str(source) not in refused.err


@pytest.mark.parametrize("version", [1, 2])
def test_a_full_disk(version: int, tmp_path: Path, icectl: Icectl) -> None:
    """Nothing is published; the next copy finishes."""
    source, disk = tmp_path / "source", tmp_path / "disk"
    linear_history(source, 3, version)
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root mounts")
    try:
        failed = icectl("copy", str(source), str(disk / "target"), "--json")
        assert (failed.code, failed.error["kind"]) == (14, "storage")
        assert failed.error["hint"]
        assert not (disk / "target" / "repo").exists() and not (disk / "target" / "refs").exists()
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        assert icectl("copy", str(source), str(disk / "target")).code == 0
        assert_equal(source, disk / "target")
        assert_sound(disk / "target")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_target_that_is_older_than_its_backups(
    source: Path, tmp_path: Path, icectl: Icectl
) -> None:
    target = tmp_path / "target"
    copy(source, target)
    old = (target / "repo").read_bytes()
    for number in range(2):
        with commit(open_official(source), "more") as root:
            root.attrs["x"] = number
        copy(source, target)
    (target / "repo").write_bytes(old)
    damaged = icectl("copy", str(source), str(target))
    assert damaged.code == 13
    assert f"`icectl repair -r {target}`" in damaged.err and str(source) not in damaged.err
    assert (target / "repo").read_bytes() == old


class TestDamagedSources:
    @pytest.mark.parametrize("kind", KINDS)
    def test_nothing_is_published(self, kind: str, tmp_path: Path) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        with commit(create(source), "data") as root:
            root.create_array("a", shape=(64,), chunks=(16,), dtype="i8", compressors=None)[:] = 7
        tip = open_official(source).lookup_branch("main")
        names = sorted(path.name for path in (source / kind).iterdir())
        (source / kind / (tip if tip in names else names[0])).unlink()
        with pytest.raises(FormatError):
            copy(source, target)
        assert not (target / "repo").exists()

    @pytest.mark.parametrize("options", [{}, {"verify": "bytes"}, {"dry_run": True}])
    @pytest.mark.parametrize("damage", LOG_DAMAGES)
    @pytest.mark.parametrize("version", [1, 2])
    def test_a_damaged_log(
        self, version: int, damage: str, options: dict[str, Any], tmp_path: Path
    ) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        repo = linear_history(source, 2, version)
        path = source / "transactions" / repo.lookup_branch("main")
        path.write_bytes(LOG_DAMAGES[damage](path.read_bytes()))
        with pytest.raises(FormatError) as failure:
            copy(source, target, **options)
        assert (failure.value.path, failure.value.exit_code) == (f"transactions/{path.name}", 13)
        assert not (target / "repo").exists() and not (target / "refs").exists()

    @pytest.mark.parametrize("version", [1, 2])
    def test_a_damaged_log_replaces_no_sound_one(self, version: int, tmp_path: Path) -> None:
        """An incremental copy reads only new logs, except in spec version 1, which reads all."""
        source, target = tmp_path / "source", tmp_path / "target"
        repo = linear_history(source, 2, version)
        copy(source, target)
        name = f"transactions/{repo.lookup_branch('main')}"
        sound = (source / name).read_bytes()
        (source / name).write_bytes(bytes(len(sound)))
        with commit(repo, "more") as root:
            root.attrs["x"] = 1
        if version == 1:
            with pytest.raises(FormatError):
                copy(source, target)
        else:
            assert copy(source, target).copied["transaction_logs"] == 1
        assert (target / name).read_bytes() == sound

    @pytest.mark.parametrize("damaged", ["snapshots", "transactions"])
    def test_damage_of_a_detached_snapshot_does_not_matter(
        self, damaged: str, tmp_path: Path
    ) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        repo = create(source)
        tip = repo.lookup_branch("main")
        with commit(repo, "data") as root:
            root.create_array("a", shape=(64,), chunks=(16,), dtype="i8", compressors=None)[:] = 7
        lost = repo.lookup_branch("main")
        repo.reset_branch("main", tip)
        (source / damaged / lost).write_bytes(b"")
        done = copy(source, target)
        assert done.snapshots == 1
        assert [f"{damaged}/{lost}" in note for note in done.notes] == [True]
        assert_sound(target)


@pytest.mark.parametrize("limit", [None, 10**9])
def test_a_truncated_chunk_of_the_source(limit: int | None, source: Path, tmp_path: Path) -> None:
    """By the kernel, and through this process."""
    target = tmp_path / "target"
    for path in (source / "chunks").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError) as failure:
        copy(source, target, bytes_per_second=limit)
    assert (failure.value.path or "").startswith("chunks/")
    assert not (target / "repo").exists()


def test_truncated_objects_are_copied_again(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    copy(source, target)
    (target / "repo").unlink()
    there = {kind: len([*(target / kind).iterdir()]) for kind in KINDS}
    for kind in KINDS:
        path = max((target / kind).iterdir(), key=lambda path: path.stat().st_size)
        path.write_bytes(path.read_bytes()[:-1])
    done = copy(source, target)
    assert {*done.copied.values()} == {1}
    assert [*done.skipped.values()] == [number - 1 for number in there.values()]
    assert_equal(source, target)
    assert_sound(target)


def test_other_bytes_are_found(source: Path, tmp_path: Path) -> None:
    from icectl.errors import StorageError

    target = tmp_path / "target"
    copy(source, target)
    path = next((target / "chunks").iterdir())
    path.write_bytes(bytes(len(path.read_bytes())))
    copy(source, target, verify="sizes")
    with pytest.raises(StorageError):
        copy(source, target, verify="bytes")


def test_both_engines(source: Path, tmp_path: Path, choose_engine: ChooseEngine) -> None:
    target = tmp_path / "target"
    done = copy(source, target, choose_engine=choose_engine, verify="bytes")
    assert done.objects == len(files(target))
    assert_equal(source, target)
    with commit(open_official(source), "more") as root:
        root["a"][:] = 99
    assert copy(source, target, choose_engine=choose_engine).objects
    assert_equal(source, target)


@pytest.mark.slow
def test_bandwidth_of_both_engines(
    source: Path, tmp_path: Path, choose_engine: ChooseEngine
) -> None:
    target, limit = tmp_path / "target", 2000
    began = time.monotonic()
    done = copy(source, target, choose_engine=choose_engine, bytes_per_second=limit)
    assert time.monotonic() - began > 0.5 * done.bytes_by_kind["chunks"] / limit
    assert_equal(source, target)


class TestCommand:
    def test_documents_and_exit_codes(self, source: Path, tmp_path: Path, icectl: Icectl) -> None:
        target = str(tmp_path / "target")
        planned = icectl("copy", str(source), target, "--dry-run", "--json").document
        assert planned["dry_run"] and planned["is_new"] and not planned["is_up_to_date"]
        done = icectl("copy", str(source), target, "--verify", "sizes", "--json").document
        assert done["copied"] == planned["copied"] and done["verified"] == "sizes"
        kinds = {"chunks", "manifests", "transaction_logs", "snapshots"}
        assert done["copied"].keys() == done["skipped"].keys() == kinds
        assert done["bytes_copied"] == sum(done["bytes_by_kind"].values()) > 0
        assert not any(done["skipped"].values())
        (main,) = (one for one in done["branches"] if one["name"] == "main")
        tip = open_official(source).lookup_branch("main")
        assert main == {"name": "main", "snapshot_id": tip, "previous_snapshot_id": None}
        assert done["engine"] == "local"
        assert icectl("copy", str(source), target, "--json").document["is_up_to_date"]
        open_official(target).create_branch("mine", open_official(target).lookup_branch("main"))
        assert icectl("copy", str(source), target).code == 16
        assert icectl("copy", str(source), target, "--force").code == 0
        assert icectl("copy", str(tmp_path / "none"), target).code == 10
        assert icectl("copy", str(source), str(source)).code == 2
        for words in (("", target), (str(source), "")):
            empty = icectl("copy", *words)
            assert empty.code == 2 and "--repo" not in empty.err

    def test_hints_name_options_that_exist(
        self, source: Path, tmp_path: Path, icectl: Icectl
    ) -> None:
        (tmp_path / "target").mkdir()
        (tmp_path / "target" / "chunks").symlink_to(source / "chunks")
        refused = icectl("copy", str(source), str(tmp_path / "target"))
        assert refused.code == 14
        assert "--target-option" in refused.err and "--storage-option" not in refused.err

    @pytest.mark.parametrize("limit", ["10", "0MB", "fast", "-1"])
    def test_wrong_limits(self, limit: str, source: Path, tmp_path: Path, icectl: Icectl) -> None:
        words = ("copy", str(source), str(tmp_path / "t"), "--dry-run")
        code = icectl(*words, f"--bandwidth-limit={limit}").code
        assert code == (0 if limit == "10" else 2)

    def test_no_time(self, source: Path, tmp_path: Path, icectl: Icectl) -> None:
        target = tmp_path / "target"
        assert icectl("copy", str(source), str(target), "--max-runtime", "0s").code == 3
        assert not (target / "repo").exists()

    def test_bandwidth(self, source: Path, tmp_path: Path, icectl: Icectl) -> None:
        began = time.monotonic()
        words = ("copy", str(source), str(tmp_path / "target"), "--bandwidth-limit", "10kB")
        size = icectl(*words, "--json").document
        total = size["bytes_copied"]
        assert time.monotonic() - began > 0.5 * total / 10_000
        assert_equal(source, tmp_path / "target")

    def test_bandwidth_and_time(self, source: Path, tmp_path: Path, icectl: Icectl) -> None:
        began = time.monotonic()
        words = ("copy", str(source), str(tmp_path / "target"), "--bandwidth-limit", "10B")
        assert icectl(*words, "--max-runtime", "1s").code == 3
        assert time.monotonic() - began < PATIENCE_SECONDS
        assert not (tmp_path / "target" / "repo").exists()
