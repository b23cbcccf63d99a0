"""Repositories of spec version 1 to upgrade, and what the two upgrades make of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from icectl.format.values import decode_metadata
from icectl.model.repo import RepoInfo
from icectl.ops.upgrade import UpgradeResult, execute_upgrade, plan_upgrade
from icectl.pipeline.progress import Progress
from icectl.repository.open import open_repository
from icectl.repository.ops_log import read_repo
from icectl.storage.contract import Storage
from icectl.storage.local import LocalStorage
from tests.official import Where, ic, open_official, storage_of
from tests.official.histories import commit, create


def upgrade(storage: Storage | Path, *, keep_detached: bool = False) -> UpgradeResult:
    storage = LocalStorage(str(storage)) if isinstance(storage, Path) else storage
    plan = plan_upgrade(open_repository(storage), Progress(), keep_detached=keep_detached)
    return execute_upgrade(storage, plan, Progress())


def upgrade_officially(where: Where, **options: Any) -> ic.Repository:
    repo = ic.Repository.open(storage_of(where))
    return ic.upgrade_icechunk_repository(repo, dry_run=False, **options)


def small(where: Where) -> ic.Repository:
    """Branches, a tag of each kind, a detached commit, and a commit that only a tag reaches."""
    repo = create(where, 1)
    for number in range(3):
        with commit(repo, f"commit {number}", metadata={"number": number}) as root:
            root.attrs["number"] = number
    tip = repo.lookup_branch("main")
    for branch in ("b", "a"):
        repo.create_branch(branch, tip)
        with commit(repo, f"on {branch}", branch=branch) as root:
            root.attrs["branch"] = branch
    repo.create_tag("tagged", repo.lookup_branch("b"))
    repo.create_tag("a-b", tip)
    repo.create_tag("a", tip)
    repo.delete_tag("a")
    repo.delete_tag("a-b")
    with commit(repo, "only tagged", branch="b") as root:
        root.attrs["branch"] = "tag"
    repo.create_tag("alone", repo.lookup_branch("b"))
    repo.reset_branch("b", tip)
    with commit(repo, "detached", branch="b") as root:
        root.attrs["branch"] = "none"
    repo.reset_branch("b", tip)
    return repo


def upgraded_state(storage: Storage | Path) -> tuple[RepoInfo, list[object]]:
    """The state without the time of the migration, and the metadata of commits.

    FlexBuffers has several encodings of one number, so values are compared.
    """
    info = read_repo(LocalStorage(str(storage)) if isinstance(storage, Path) else storage)
    newest, *older = info.latest_updates
    updates = (replace(newest, updated_at=0), *older)
    metadata: list[object] = [decode_metadata(one.metadata, 2) for one in info.snapshots]
    snapshots = tuple(replace(one, metadata=None) for one in info.snapshots)
    return replace(info, latest_updates=updates, config=None, snapshots=snapshots), metadata


def official_view(where: Where) -> tuple[dict[str, Any], ic.RepositoryConfig | None]:
    """`inspect_repo_info` without what names the writer and the time, and the configuration."""
    info = open_official(where).inspect_repo_info()
    del info["header"]
    del info["latest_updates"][0]["updated_at"]
    return info, ic.Repository.fetch_config(storage_of(where))
