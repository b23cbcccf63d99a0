"""`icectl --version`: the versions needed in a bug report."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import metadata

from icectl import __version__

REPORTED_PACKAGES = (
    "typer",
    "rich",
    "numpy",
    "flatbuffers",
    "zstandard",
    "msgpack",
    "obstore",
    "arro3-core",
    "fsspec",
    "s3fs",
    "gcsfs",
    "pyspark",
    "pyarrow",
    "icechunk",
)


def version_lines() -> Iterator[str]:
    """Yield versions from the metadata of installed packages, without importing them."""
    yield f"icectl {__version__}"
    yield (
        f"python {platform.python_version()} ({platform.python_implementation()}, "
        f"{platform.system()} {platform.machine()})"
    )
    for package in REPORTED_PACKAGES:
        try:
            yield f"{package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            continue
