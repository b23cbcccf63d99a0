"""Checks of the installation, the credentials and a storage: `icectl doctor`.

A failed check is a result, not an exception. Only the names of credential variables and files
are reported, never their content.
"""

from __future__ import annotations

import importlib
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from icectl.checks.rules import catalogue
from icectl.errors import Hint, IcectlError, RefusedError, Remedy, RepositoryNotFoundError
from icectl.java import find_java, why_no_java
from icectl.ops.repair.repo_file import plan_settings
from icectl.repository.clock import MAX_SKEW
from icectl.repository.open import open_repository
from icectl.repository.repository import Repository
from icectl.spark.session import SparkOptions, missing_for_spark
from icectl.storage.contract import Storage
from icectl.storage.local import LocalStorage

State = Literal["ok", "warning", "failed", "absent"]

OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17
REQUIRED = (
    "numpy", "flatbuffers", "zstandard", "msgpack", "yaml", "typer", "rich", "tomlkit", "obstore",
    "arro3", "fsspec", "s3fs", "botocore",
    "gcsfs", "google.auth", "aiohttp", "prometheus_client",
)  # fmt: skip
OPTIONAL: dict[str, Hint] = {
    "pyspark": Remedy("need-pyspark"),
    "pyarrow": "only exports, Parquet files and Spark need it",
    "icechunk": Remedy("need-icechunk"),
    "zarr": Remedy("need-zarr"),
    "vl_convert": Remedy("need-vl-convert"),
}
REPAIR = Remedy("repair")
DISTRIBUTIONS = {
    "yaml": "pyyaml",
    "arro3": "arro3-core",
    "google.auth": "google-auth",
    "prometheus_client": "prometheus-client",
    "vl_convert": "vl-convert-python",
}
"""Where the name to import is not the name to install."""
AWS_VARIABLES = (
    "AWS_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
AZURE_VARIABLES = (
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_CLIENT_ID",
)
GOOGLE_VARIABLES = ("GOOGLE_APPLICATION_CREDENTIALS",)
NOTABLE_SKEW_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: State
    detail: str
    hint: Hint | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    ok: bool
    """No check has failed."""
    checks: tuple[Check, ...]


def diagnose(checks: Iterator[Check]) -> Diagnosis:
    found = tuple(checks)
    return Diagnosis(all(check.state != "failed" for check in found), found)


def check_installation(environ: Mapping[str, str]) -> Iterator[Check]:
    version = platform.python_version()
    state: State = "ok" if sys.version_info >= OLDEST_PYTHON else "failed"
    yield Check("python", state, f"{platform.python_implementation()} {version}")
    for name in REQUIRED:
        yield check_library(name)
    for name, purpose in OPTIONAL.items():
        found = check_library(name)
        if found.state == "failed" and "not installed" in found.detail:
            found = Check(name, "absent", found.detail, purpose)
        yield found
    yield check_java(environ)
    missing = missing_for_spark(SparkOptions(), environ)
    if missing is None:
        yield Check("spark", "ok", "a local session can be started")
    else:
        yield Check("spark", "absent", missing.what, missing.hint)


def check_library(name: str) -> Check:
    """Import the package: it may be installed but broken."""
    distribution = DISTRIBUTIONS.get(name, name)
    hint = f"pip install {distribution}"
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return Check(name, "failed", "not installed", hint)
    try:
        importlib.import_module(name)
    except Exception as error:  # whatever a broken installation does
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        hint = f"pip install --force-reinstall {distribution}"
        return Check(name, "failed", f"{version} cannot be imported: {reason}", hint)
    return Check(name, "ok", version)


def check_java(environ: Mapping[str, str]) -> Check:
    found = find_java(environ)
    if found is None:
        if environ.get("JAVA_HOME"):
            hint = "only Spark needs it; unset JAVA_HOME, or set it to a Java installation"
            return Check("java", "warning", why_no_java(environ), hint)
        return Check("java", "absent", "not found", "only Spark needs it")
    try:
        done = subprocess.run(
            [found, "-version"], env=dict(environ), capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Check("java", "warning", f"{found} does not run: {error}", "only Spark needs it")
    output = done.stderr + done.stdout
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    if match is None:
        return Check(
            "java", "warning", f"{found} does not print its version", "only Spark needs it"
        )
    detail = f"version {match[1]} at {found}"
    if int(match[1]) < OLDEST_JAVA:
        return Check("java", "warning", detail, f"Spark 4 needs Java {OLDEST_JAVA} or newer")
    return Check("java", "ok", detail)


def check_credentials(environ: Mapping[str, str], home: Path) -> Iterator[Check]:
    """Report which sources exist; only the storage can say whether it accepts them."""
    aws_files = {
        "AWS_SHARED_CREDENTIALS_FILE": home / ".aws" / "credentials",
        "AWS_CONFIG_FILE": home / ".aws" / "config",
    }
    google_files = {
        "CLOUDSDK_CONFIG": home / ".config" / "gcloud" / "application_default_credentials.json"
    }
    yield _credentials("aws credentials", AWS_VARIABLES, aws_files, environ)
    yield _credentials("google credentials", GOOGLE_VARIABLES, google_files, environ)
    yield _credentials("azure credentials", AZURE_VARIABLES, {}, environ)


def _credentials(
    name: str, variables: tuple[str, ...], files: Mapping[str, Path], environ: Mapping[str, str]
) -> Check:
    found = [f"${variable}" for variable in variables if environ.get(variable)]
    for variable, default in files.items():
        named = environ.get(variable)
        path = Path(named) if named else default
        if path.is_dir():
            path /= default.name
        if path.is_file():
            found.append(str(path))
        elif named and not path.exists():
            return Check(name, "warning", f"${variable} names a file that does not exist: {named}")
    pointer = environ.get("GOOGLE_APPLICATION_CREDENTIALS") if name.startswith("google") else None
    if pointer and not Path(pointer).is_file():
        return Check(name, "warning", f"$GOOGLE_APPLICATION_CREDENTIALS names no file: {pointer}")
    if not found:
        hint = "only cloud storage needs them; the role of a machine is not checked here"
        return Check(name, "absent", "none found", hint)
    return Check(name, "ok", ", ".join(found))


def check_storage(storage: Storage, *, may_write: bool, repair: Hint = REPAIR) -> Iterator[Check]:
    """Check access, repository, conditional writes, clock and needed repairs.

    Probing conditional writes creates one object. `repair` is the hint for a repository that
    needs repairs.
    """
    try:
        first = next(iter(storage.list("", with_info=False)), None)
    except IcectlError as error:
        yield Check("storage", "failed", error.message, error.hint)
        return
    yield Check("storage", "ok", f"{storage.location} can be listed")
    repository: Repository | None = None
    try:
        repository = open_repository(storage)
        repository.check_newest()
    except RepositoryNotFoundError as error:
        detail = "the location is empty" if first is None else error.message
        hint = error.hint if error.has_remains else Remedy("create-repository-there")
        state: State = "failed" if error.has_remains else "warning"
        yield Check("repository", state, detail, hint)
    except IcectlError as error:
        yield Check("repository", "failed", error.message, error.hint)
    else:
        yield _describe(repository)
    yield _check_conditional_writes(storage, may_write=may_write)
    yield _check_clock(storage)
    if repository is not None and repository.is_writable:
        yield _check_repairs(repository, repair)


def _describe(repository: Repository) -> Check:
    return Check(
        "repository",
        "ok",
        f"{repository.generation}, spec version {repository.spec_version}, "
        f"branches: {len(repository.branches())}, tags: {len(repository.tags())}",
    )


def _check_repairs(repository: Repository, hint: Hint) -> Check:
    try:
        steps = [*plan_settings(repository, repository.storage.read_clock())]
    except IcectlError as error:
        return Check("repair", "failed", error.message, error.hint)
    if not steps:
        return Check("repair", "ok", "not needed")
    broken = [catalogue()[code] for step in steps for code, _ in step.mends]
    failed = any(rule.severity == "error" for rule in broken)
    faults = "; ".join(f"{rule.title} ({rule.code})" for rule in broken)
    return Check("repair", "failed" if failed else "warning", faults, hint)


def _check_conditional_writes(storage: Storage, *, may_write: bool) -> Check:
    name = "conditional writes"
    if not may_write:
        return Check(name, "absent", "not checked", Remedy("try-conditional-writes"))
    try:
        storage.ensure_conditional_writes()
    except RefusedError as error:
        return Check(name, "failed", error.message, error.hint)
    except IcectlError as error:
        return Check(name, "warning", f"could not be checked: {error.message}", error.hint)
    if isinstance(storage, LocalStorage):
        hint = "do not write with the official client while icectl changes the repository"
        return Check(name, "ok", "a lock between processes of icectl", hint)
    return Check(name, "ok", "honoured")


def _check_clock(storage: Storage) -> Check:
    try:
        before = time.time_ns() // 1000
        theirs = storage.read_clock()
        after = time.time_ns() // 1000
    except IcectlError as error:
        return Check("clock", "warning", f"cannot be read: {error.message}", error.hint)
    seconds = (theirs - (before + after) / 2) / 1e6
    detail = f"the storage is {abs(seconds):.1f} s {'ahead' if seconds > 0 else 'behind'}"
    if abs(seconds) * 1e6 > MAX_SKEW:
        hint = "set the clock: icectl writes nothing, and official clients refuse to commit"
        return Check("clock", "failed", detail, hint)
    if abs(seconds) >= NOTABLE_SKEW_SECONDS:
        hint = "gc goes by the storage's clock, commits by the writer's: set the clock"
        return Check("clock", "warning", detail, hint)
    return Check("clock", "ok", detail)
