"""`icectl doctor`: check the installation and the storage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Annotated

from icectl.cli.context import CommandContext
from icectl.cli.options import Flag, command
from icectl.errors import IcectlError, RepositoryNotFoundError
from icectl.ops.doctor import (
    Check,
    Diagnosis,
    State,
    check_credentials,
    check_installation,
    check_storage,
    diagnose,
)
from icectl.render.blocks import Block, Column, Role, Table
from icectl.render.text import format_count, format_counts

EXAMPLES = """
icectl doctor  # the installation, and the repository in this directory
icectl doctor -r s3://bucket/prefix  # also the storage of a repository
icectl doctor -r prod --read-only  # the same without writing anything
"""


@command()
def doctor(
    context: CommandContext,
    read_only: Annotated[
        Flag, "Do not test conditional writes, which writes a small object."
    ] = False,
) -> int | None:
    """Check the installation and the storage.

    Checks the interpreter, the libraries, Java and Spark, the config file, and the sources of
    credentials (names only, never a value). If a repository is given or the current directory is
    in one, also checks whether its storage is reachable and honours conditional writes, how far
    its clock is off, and whether the repository needs `icectl repair`. The test of conditional
    writes on S3 and GCS writes a small object next to the repository and deletes it.

    Exit code 0 means that no check failed, 1 that a check failed; warnings are not failures.
    """
    found = _checks(context, read_only)
    worded = (replace(one, hint=one.hint and context.describe(one.hint)) for one in found)
    diagnosis = diagnose(worded)
    context.emit(diagnosis, render_diagnosis)
    return None if diagnosis.ok else 1


def _checks(context: CommandContext, read_only: bool) -> Iterator[Check]:
    environ = context.environ
    yield from check_installation(environ)
    yield _check_config(context)
    yield from check_credentials(environ, Path(environ.get("HOME") or "~").expanduser())
    try:
        storage = context.open_storage()
    except RepositoryNotFoundError:
        why = "not checked, because no repository was given"
        yield Check("storage", "absent", why, "-r LOCATION")
    except IcectlError as error:
        yield Check("storage", "failed", error.message, error.hint)
    else:
        repair = context.command_line("repair")
        yield from check_storage(storage, may_write=not read_only, repair=repair)


def _check_config(context: CommandContext) -> Check:
    try:
        count = format_count(len(context.config.repositories), "repository", "repositories")
    except IcectlError as error:
        return Check("config file", "failed", error.message, error.hint)
    path = context.config.path
    if not context.config.text:
        hint = "icectl remote add creates it"
        return Check("config file", "absent", f"{path} does not exist", hint)
    return Check("config file", "ok", f"{path}, {count}")


_ROLES: dict[State, Role] = {"ok": "good", "warning": "warning", "failed": "bad", "absent": "dim"}
_COLUMNS = (
    Column("STATE", itemgetter(0)),
    Column("CHECK", itemgetter(1), "title"),
    Column("DETAIL", itemgetter(2), wraps=True),
)


def render_diagnosis(diagnosis: Diagnosis) -> Iterator[Block]:
    rows: list[tuple[object, ...]] = []
    for check in diagnosis.checks:
        rows.append(((check.state, _ROLES[check.state]), check.name, check.detail))
        if check.hint is not None:
            rows.append((None, None, (check.hint, "dim")))
    yield Table(_COLUMNS, rows)
    states = Counter(check.state for check in diagnosis.checks)
    counts = {"failed check": states["failed"], "warning": states["warning"]}
    yield format_counts(counts, omit_zeros=True) or "All checks passed."
