"""`icectl --version`: the versions that matter in a bug report."""

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
    "fsspec",
    "s3fs",
    "gcsfs",
    "pyspark",
    "pyarrow",
    "icechunk",
)


def version_lines() -> Iterator[str]:
    """Versions from the installed metadata; nothing is imported to find them."""
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
