"""Drives the official `icechunk` package: repositories to test and measure icectl against.

A test module that imports from here is skipped on an interpreter without the package.

    build_zoo(where, spec_version)      one repository with everything the format knows
    linear_history, random_history      histories: plain, and a seeded property-test driver
    many_commits, many_native_chunks,
    many_virtual_refs, many_small_manifests, synthetic_native_refs,
    native_refs_in_manifests, many_snapshots, many_manifests, many_expirations,
    many_operations, many_files   large repositories, quickly
    daily_maintenance   years of commits, expirations and collections
    changed_native_refs, changed_virtual_refs   large versions that differ a little
    many_arrays, virtual_refs_in_one_commit     large versions that differ much
    open_official, read_everything, official_report   what the official package says of one

    built, copied       build once for a test session, copy for tests that change something

`where` is a directory or an `icechunk.Storage`.
"""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("ICECHUNK_LOG", "error")
pytest.importorskip("icechunk")
pytest.importorskip("zarr")

# It reads ICECHUNK_LOG once, when it is imported: tests take it from here.
import icechunk as ic
import zarr

from tests.official.aged import daily_maintenance
from tests.official.cache import built, copied
from tests.official.changed import changed_native_refs, changed_virtual_refs
from tests.official.histories import linear_history, many_commits, random_history
from tests.official.large import (
    many_native_chunks,
    many_small_manifests,
    many_virtual_refs,
    synthetic_native_refs,
)
from tests.official.many_manifests import native_refs_in_manifests
from tests.official.operations import (
    many_expirations,
    many_files,
    many_manifests,
    many_operations,
)
from tests.official.reading import (
    Where,
    all_snapshot_ids,
    diff_facts,
    official_report,
    open_official,
    read_everything,
    storage_of,
)
from tests.official.snapshots import many_snapshots
from tests.official.wide import many_arrays, virtual_refs_in_one_commit
from tests.official.zoo import build_zoo

__all__ = [
    "Where",
    "all_snapshot_ids",
    "build_zoo",
    "built",
    "changed_native_refs",
    "changed_virtual_refs",
    "copied",
    "daily_maintenance",
    "diff_facts",
    "ic",
    "linear_history",
    "many_arrays",
    "many_commits",
    "many_expirations",
    "many_files",
    "many_manifests",
    "many_native_chunks",
    "many_operations",
    "many_small_manifests",
    "many_snapshots",
    "many_virtual_refs",
    "native_refs_in_manifests",
    "official_report",
    "open_official",
    "random_history",
    "read_everything",
    "storage_of",
    "synthetic_native_refs",
    "virtual_refs_in_one_commit",
    "zarr",
]
