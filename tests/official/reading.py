"""What the official package says about a repository.

Learnt about its API (2.3.0):
- `inspect_*` return plain dictionaries. `inspect_repo_info`, `ops_log`, feature flags, status
  and repository metadata exist in spec version 2 only; in version 1 they raise `FormatError`.
- `inspect_repo_info` leaves out `pruned_ancestor_tx_logs`, config, status and flags.
  `inspect_transaction_log` of a snapshot with pruned ancestors is a merge of several files,
  marked by the key `synthetic_composite`; where there is no log (the initial snapshot of V1,
  also after a migration) it raises.
- `inspect_manifest`'s `size_bytes` is the decompressed payload; the one in a snapshot's
  `manifests` (and `list_manifest_files`) is the size of the file.
  It fetches exactly that many bytes: whoever rewrites a manifest must correct the snapshot.
- Nodes of a snapshot lie in the order of their paths' bytes (`/a-b` before `/a/b`), against the
  specification's component-wise order, and are searched by halves in that order.
- `ancestry`, `readonly_session` take any snapshot id that `repo` lists, detached ones too.
- Virtual chunks are readable only when the container's prefix is authorised at `open`.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import icechunk as ic
from zarr.core.buffer import default_buffer_prototype

Where = str | Path | ic.Storage


def storage_of(where: Where) -> ic.Storage:
    return where if isinstance(where, ic.Storage) else ic.local_filesystem_storage(str(where))


def open_official(where: Where, config: ic.RepositoryConfig | None = None) -> ic.Repository:
    """Open with access to every `file://` container that the stored config names."""
    storage = storage_of(where)
    stored = ic.Repository.fetch_config(storage)
    containers = (stored.virtual_chunk_containers if stored else None) or {}
    local: dict[str, Any] = {
        container.url_prefix: ic.credentials.LocalFileSystemAccess
        for container in containers.values()
        if container.url_prefix.startswith("file://")
    }
    return ic.Repository.open(storage, config=config, authorize_virtual_chunk_access=local)


def all_snapshot_ids(repo: ic.Repository, *, detached: bool = True) -> list[str]:
    """Every snapshot that the repository can open: reachable ones and, in V2, detached ones."""
    found: dict[str, None] = {}
    if detached and repo.spec_version >= 2:
        found.update((info["id"], None) for info in repo.inspect_repo_info()["snapshots"])
    for branch in sorted(repo.list_branches()):
        found.update((info.id, None) for info in repo.ancestry(branch=branch))
    for tag in sorted(repo.list_tags()):
        found.update((info.id, None) for info in repo.ancestry(tag=tag))
    return list(found)


async def _content(store: Any, limit: asyncio.Semaphore) -> dict[str, str]:
    """Each key of a store with the hash of its value, or the class of the error it gives."""
    prototype = default_buffer_prototype()

    async def one(key: str) -> tuple[str, str]:
        async with limit:
            try:
                value = await store.get(key, prototype)
            except Exception as error:
                return key, f"!{type(error).__name__}"
        digest = hashlib.sha256(value.to_bytes()) if value is not None else None
        return key, digest.hexdigest() if digest else "!missing"

    keys = [key async for key in store.list()]
    return dict(await asyncio.gather(*(one(key) for key in keys)))


def read_everything(repo: ic.Repository, *, detached: bool = True) -> dict[str, Any]:
    """Every version's every key (zarr metadata with attributes, and chunks) as a hash.

    Two repositories with equal answers hold the same data; a chunk that cannot be read shows
    as `!` and the class of the error (an unauthorised container's chunks, or a lost chunk).
    Without `detached`, only versions that a branch or tag leads to.
    """
    snapshots = all_snapshot_ids(repo, detached=detached)

    async def read_all() -> dict[str, dict[str, str]]:
        limit = asyncio.Semaphore(64)
        return {
            snapshot: await _content(
                (await repo.readonly_session_async(snapshot_id=snapshot)).store, limit
            )
            for snapshot in snapshots
        }

    return {
        "branches": {name: repo.lookup_branch(name) for name in sorted(repo.list_branches())},
        "tags": {name: repo.lookup_tag(name) for name in sorted(repo.list_tags())},
        "snapshots": asyncio.run(read_all()),
    }


def diff_facts(diff: ic.Diff) -> dict[str, Any]:
    """An official diff as sorted plain values."""
    return {
        "new_groups": sorted(diff.new_groups),
        "new_arrays": sorted(diff.new_arrays),
        "deleted_groups": sorted(diff.deleted_groups),
        "deleted_arrays": sorted(diff.deleted_arrays),
        "updated_groups": sorted(diff.updated_groups),
        "updated_arrays": sorted(diff.updated_arrays),
        "updated_chunks": {
            path: sorted(map(list, chunks)) for path, chunks in sorted(diff.updated_chunks.items())
        },
        "moved_nodes": [list(move) for move in diff.moved_nodes],
    }


def _snapshot_facts(repo: ic.Repository, snapshot: str) -> dict[str, Any]:
    ancestry = list(repo.ancestry(snapshot_id=snapshot))
    facts: dict[str, Any] = {
        "inspect_snapshot": repo.inspect_snapshot(snapshot),
        "ancestry": [
            {
                "id": info.id,
                "parent_id": info.parent_id,
                "written_at": info.written_at.isoformat(),
                "message": info.message,
                "metadata": info.metadata,
            }
            for info in ancestry
        ],
        "list_manifest_files": [
            {"id": file.id, "size_bytes": file.size_bytes, "num_chunk_refs": file.num_chunk_refs}
            for file in repo.list_manifest_files(snapshot)
        ],
        "inspect_transaction_log": None,
        "diff_from_parent": None,
    }
    try:
        facts["inspect_transaction_log"] = repo.inspect_transaction_log(snapshot)
    except ic.IcechunkError:
        # The initial snapshot of V1 has none, see above.
        if ancestry[0].parent_id is not None:
            raise
    if len(ancestry) > 1:
        diff = repo.diff(from_snapshot_id=ancestry[1].id, to_snapshot_id=snapshot)
        facts["diff_from_parent"] = diff_facts(diff)
    return facts


def official_report(where: Where | ic.Repository) -> dict[str, Any]:
    """JSON-ready facts: `inspect_*`, ancestry, diff, manifest files, ops log; V1 has no `repo`."""
    repo = where if isinstance(where, ic.Repository) else open_official(where)
    report: dict[str, Any] = {
        "spec_version": int(repo.spec_version),
        "branches": {name: repo.lookup_branch(name) for name in sorted(repo.list_branches())},
        "tags": {name: repo.lookup_tag(name) for name in sorted(repo.list_tags())},
        "snapshots": {
            snapshot: _snapshot_facts(repo, snapshot) for snapshot in all_snapshot_ids(repo)
        },
    }
    report["manifests"] = {
        file["id"]: repo.inspect_manifest(file["id"])
        for snapshot in report["snapshots"].values()
        for file in snapshot["list_manifest_files"]
    }
    if repo.spec_version >= 2:
        status = repo.get_status()
        report |= {
            "inspect_repo_info": repo.inspect_repo_info(),
            "metadata": repo.get_metadata(),
            "status": {
                "availability": str(status.availability).rsplit(".", 1)[-1],
                "set_at": status.set_at.isoformat(),
                "limited_availability_reason": status.limited_availability_reason,
            },
            "feature_flags": [
                {"id": flag.id, "name": flag.name, "setting": flag.setting, "enabled": flag.enabled}
                for flag in repo.feature_flags()
            ],
            "ops_log": [
                {
                    "kind": type(update.kind).__name__,
                    "updated_at": update.updated_at.isoformat(),
                    "backup_path": update.backup_path,
                }
                for update in repo.ops_log()
            ],
        }
    return report
