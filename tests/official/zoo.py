"""One repository with everything the format knows, written by the official package.

Learnt about its API (2.3.0):
- A virtual chunk's location must be under a container of the config; the container's name is
  its URL prefix. `etag_checksum` and `last_updated_at_checksum` are stored as given.
- `num_updates_per_repo_info_file` bounds `latest_updates`; with 12 here the zoo's operations
  overflow it several times, so the ops log runs through a chain of backups.
- An amended snapshot leaves the old one in `repo` until gc; `flush` writes a detached one.
- `expire_snapshots` gives the oldest retained snapshot `pruned_ancestor_tx_logs` (V2).
- In V1 on local disk, a ref name with `%` or beyond ASCII is written percent-encoded. Looking
  it up works, but a branch is listed in its encoded form and a tag not at all, so that
  `expire_snapshots` fails: such names are in the V2 zoo only. A space is fine.
- Saving a config writes `config.yaml` in V1 (the old one goes to `overwritten/`), and a
  `ConfigChanged` entry in V2.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import icechunk as ic
import numpy as np
import zarr

from tests.official.histories import commit, create
from tests.official.large import CONTAINER
from tests.official.reading import Where

NESTED_METADATA: dict[str, Any] = {
    "author": "Zoë ☃",
    "nested": {"list": [1, -2, 3.5, None, True, "x", {"deep": [[], {}, [[-1]]]}], "empty": {}},
    "large": 2**53 + 1,
    "negative": -(2**40),
    "float": 1e-300,
}
LAST_MODIFIED = datetime.datetime(2024, 2, 29, 12, 0, 0, tzinfo=datetime.UTC)


def _config(source: Path) -> dict[str, Any]:
    prefix = f"file://{source}/"
    splitting = ic.ManifestSplittingConfig.from_dict(
        {
            ic.ManifestSplitCondition.name_matches("^split$"): {
                ic.ManifestSplitDimCondition.Axis(0): 3,
                ic.ManifestSplitDimCondition.DimensionName("x"): 2,
            }
        }
    )
    return {
        "inline_chunk_threshold_bytes": 64,
        "num_updates_per_repo_info_file": 12,
        "manifest": ic.ManifestConfig(
            splitting=splitting,
            virtual_chunk_location_compression=ic.ManifestVirtualChunkLocationCompressionConfig(
                min_num_chunks=50
            ),
        ),
        "virtual_chunk_containers": {
            prefix: ic.VirtualChunkContainer(prefix, ic.local_filesystem_store(str(source))),
            CONTAINER: ic.VirtualChunkContainer(CONTAINER, ic.s3_store(region="us-east-1")),
        },
    }


def _write_arrays(root: Any) -> None:
    plain: dict[str, Any] = {"compressors": None, "fill_value": 0}
    native = root.create_array("native", shape=(40, 30), chunks=(10, 10), dtype="f8", **plain)
    native[...] = np.arange(1200).reshape(40, 30)
    native.attrs["units"] = "K"
    inline = root.create_array("inline", shape=(20,), chunks=(5,), dtype="i2", **plain)
    inline[:] = np.arange(20)
    scalar = root.create_array("scalar", shape=(), dtype="f8", **plain)
    scalar[...] = 42.5
    root.create_array("five", shape=(3, 2, 4, 2, 5), chunks=(2, 1, 3, 2, 2), dtype="i4", **plain)[
        ...
    ] = np.arange(240).reshape(3, 2, 4, 2, 5)
    root.create_array("empty", shape=(0, 7), chunks=(1, 7), dtype="i4", **plain)
    root.create_array("unwritten", shape=(100,), chunks=(10,), dtype="i4", **plain)
    root.create_array(
        "split", shape=(10, 10), chunks=(1, 1), dtype="i8", dimension_names=("y", "x"), **plain
    )[...] = np.arange(100).reshape(10, 10)
    mixed = root.create_array("mixed", shape=(64,), chunks=(16,), dtype="u1", **plain)
    mixed[:16] = 1
    unicode_group = root.create_group("группа/データ é")
    unicode_group.create_array("Ünïcode 雪 ☃", shape=(8,), chunks=(4,), dtype="i4", **plain)[:] = 7
    root.create_group("a/b")
    # Component-wise order differs from the order of whole paths here.
    root.create_group("a-b")
    root.create_group("ab")


def _write_virtual(session: ic.Session, source: Path) -> None:
    source.mkdir(parents=True, exist_ok=True)
    files = [source / f"observations-of-station-{number:03d}.bin" for number in range(8)]
    for number, file in enumerate(files):
        file.write_bytes(bytes([number]) * 400)
    root = zarr.open_group(session.store, mode="a")
    plain: dict[str, Any] = {"dtype": "u1", "compressors": None, "fill_value": 0}
    root.create_array("virtual", shape=(40,), chunks=(10,), **plain)
    refs = [
        ic.VirtualChunkSpec([0], f"file://{files[0]}", 0, 10),
        ic.VirtualChunkSpec([1], f"{CONTAINER}x.nc", 2**33, 10, etag_checksum='"abc-1"'),
        ic.VirtualChunkSpec(
            [2], f"{CONTAINER}y%20z.nc", 5, 10, last_updated_at_checksum=LAST_MODIFIED
        ),
        ic.VirtualChunkSpec([3], f"file://{files[1]}", 20, 10),
    ]
    assert session.store.set_virtual_refs("virtual", refs) is None
    root.create_array("compressed", shape=(10, 60), chunks=(1, 10), **plain)
    locations = [f"file://{files[index % 8]}" for index in range(60)]
    rejected = session.store.set_virtual_refs_arr(
        "compressed",
        (10, 6),
        locations,
        np.arange(60, dtype="u8") // 2,
        np.full(60, 10, dtype="u8"),
    )
    assert rejected is None
    mixed = ic.VirtualChunkSpec([2], f"file://{files[2]}", 3, 16)
    assert session.store.set_virtual_refs("mixed", [mixed]) is None


def _expired_history(repo: ic.Repository) -> None:
    """Four commits, of which three are released; the last carries their logs (V2)."""
    for number in range(4):
        with commit(repo, f"before expiration {number}", metadata={"number": number}) as root:
            if number == 0:
                root.create_array("early", shape=(80,), chunks=(20,), dtype="i8", compressors=None)
            root["early"][number * 20 : number * 20 + 20] = number + 1
            root.create_group(f"early group {number}")
    released = repo.expire_snapshots(repo.lookup_snapshot(repo.lookup_branch("main")).written_at)
    assert len(released) == 3
    repo.create_tag("after-expiration", repo.lookup_branch("main"))


def _history(repo: ic.Repository, source: Path) -> None:
    """What both spec versions know."""
    other = "разработка" if repo.spec_version >= 2 else "development"
    with commit(repo, "arrays of every shape", metadata=NESTED_METADATA) as root:
        _write_arrays(root)
    session = repo.writable_session("main")
    _write_virtual(session, source)
    session.commit("virtual references")
    repo.create_branch(other, repo.lookup_branch("main"))
    repo.create_tag("v1.0 β" if repo.spec_version >= 2 else "v1.0", repo.lookup_branch("main"))
    with commit(repo, "delete and overwrite", metadata={"step": 3}) as root:
        del root["inline"]
        root["native"][5:25, :10] = -1
        root["five"].attrs["note"] = "changed"
        root["a/b"].attrs["note"] = "changed group"
        root["unwritten"].resize((50,))
        root["mixed"][48:] = np.arange(16)
        root.attrs["title"] = "zoo"
    with commit(repo, "on another branch", branch=other) as root:
        root["five"][...] = 1
    repo.create_tag("gone", repo.lookup_branch(other))
    repo.delete_tag("gone")
    repo.create_branch("short-lived", repo.lookup_branch("main"))
    with commit(repo, "unreachable soon", branch="short-lived") as root:
        root["native"][...] = 0
    repo.delete_branch("short-lived")
    keep = repo.lookup_branch("main")
    with commit(repo, "reset away") as root:
        root["split"][...] = 0
    repo.reset_branch("main", keep)
    repo.rewrite_manifests("rewritten manifests", branch="main")
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="split")[:2, :2] = -7
    session.flush("detached", metadata={"detached": True})


def _history_v2(repo: ic.Repository) -> None:
    with commit(repo, "to be amended") as root:
        root.create_group("amended")
    with commit(repo, "amended", metadata={"amended": True}, amend=True) as root:
        root["native"][0, 0] = 99
    session = repo.rearrange_session("main")
    session.move("/five", "/a/cinq")
    session.move("/группа/データ é", "/moved group")
    session.commit("moved nodes")
    session = repo.rearrange_session("main")
    session.move("/a/cinq", "/a/b/fünf")
    session.commit("moved again")
    repo.set_metadata({"owner": "zoo keeper", "nested": {"list": [1, 2, {"x": None}]}})
    repo.update_metadata({"more": "ключ"})
    repo.set_feature_flag("move_node", False)
    repo.set_feature_flag("create_tag", True)
    repo.set_feature_flag("delete_tag", False)
    repo.set_feature_flag("delete_tag", None)
    repo.set_status(
        ic.RepoStatus(ic.RepoAvailability.read_only, limited_availability_reason="maintenance")
    )
    repo.set_status(ic.RepoStatus(ic.RepoAvailability.online))


def build_zoo(where: Where, spec_version: int = 2, *, source: Path | None = None) -> ic.Repository:
    """Write the zoo; takes under a second.

    `source` is the directory of the virtual chunks' files, needed where `where` is no local
    directory; by default `where` with `.virtual` appended to its name. Copies of the
    repository refer to the same directory.
    """
    if source is None:
        if isinstance(where, ic.Storage):
            raise ValueError("a zoo on a Storage needs a source directory")
        source = Path(f"{where}.virtual")
    repo = create(where, spec_version, **_config(source.absolute()))
    _expired_history(repo)
    _history(repo, source.absolute())
    if spec_version >= 2:
        _history_v2(repo)
    return repo
