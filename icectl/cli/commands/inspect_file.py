"""`icectl inspect-file`: show one file, with or without its repository."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.locations import is_repository_directory, looks_like_location
from icectl.cli.options import Flag, command
from icectl.errors import FormatError, RepositoryNotFoundError, UsageError
from icectl.ops.inspect_file import (
    describe_file,
    iterate_references,
    read_local_file,
    read_named_file,
    read_stream,
)
from icectl.render.inspect_file import render_inspection, render_references
from icectl.storage.open import without_password

EXAMPLES = """
icectl inspect-file ./my-repo/repo  # the repo info file: refs, snapshots, ops log
icectl inspect-file -r prod 1CECHNKREP0F1RSTCMT0  # a file in a repository, by id
icectl inspect-file -r prod manifests/7TPWNB215VHK4691XAH0 --refs --jsonl
  # every reference of a manifest, one per line
icectl inspect-file --raw - < repo | xxd | head  # the decompressed payload
"""


@command(jsonl=True)
def inspect_file(
    context: CommandContext,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE"),
        "A path, a URL, or - for standard input; in a repository also an id, or a name "
        "such as snapshots/1CECHNKREP0F1RSTCMT0.",
    ],
    refs: Annotated[Flag, "List the references of a manifest."] = False,
    raw: Annotated[Flag, "Write the decompressed payload to standard output."] = False,
) -> None:
    """Show the content of one file.

    The content determines kind and generation of the file. For a damaged file, shows the
    problems, their positions and the readable content, and exits with 13.
    """
    if raw and (refs or not context.wants_text):
        raise UsageError("--raw cannot be combined with other output options")
    if raw and sys.stdout.isatty():
        raise UsageError(
            "--raw does not write to a terminal, because the bytes may contain control sequences",
            hint="redirect the output: append > payload or | xxd",
        )
    if context.options.jsonl and not refs:
        raise UsageError("--jsonl requires --refs", hint="use --json for the content of the file")
    path, data = _read(context, file)
    result, inspection = describe_file(path, data)
    if raw:
        context.output.write_bytes(inspection.payload)
    elif refs and context.options.json:
        content = {**result.content, "chunk_refs": iterate_references(path, data, inspection)}
        context.emit_json(replace(result, content=content))
    elif refs:
        references = iterate_references(path, data, inspection)
        context.emit_list("chunk_refs", references, render_references)
    else:
        context.emit(result, render_inspection, paged=True)
    if inspection.problems:
        first, *others = inspection.problems
        count = f"{len(others) + 1} problems in total; the readable content is shown above"
        hint = count if others else None
        raise FormatError(first.reason, offset=first.offset, path=path, hint=hint)


def _read(context: CommandContext, file: str) -> tuple[str, bytes]:
    if file == "-":
        return "-", read_stream(sys.stdin.buffer, "the standard input")
    if not file:
        raise UsageError("the FILE is empty", hint="give a path, a URL or an id")
    if "://" in file:
        directory, _, name = file.rpartition("/")
        if not name or "://" not in directory:
            raise UsageError(f"{file} is not a file", hint="write s3://BUCKET/PREFIX/FILE")
        without_password(file)
        if directory.lower().startswith("file:"):
            directory += "/"  # the root is a directory, too
        return file, context.open_storage(directory).read(name)
    if context.options.repo is None and (_exists(file) or looks_like_location(file)):
        try:
            return file, read_local_file(Path(file))
        except OSError as error:
            hint = f"icectl log -r {shlex.quote(file)}" if is_repository_directory(file) else None
            raise UsageError(f"{file} cannot be read: {error.strerror}", hint=hint) from None
    try:
        repository = context.open_repository()
    except RepositoryNotFoundError as error:
        if context.options.repo is not None:
            raise
        raise RepositoryNotFoundError(
            f"the file {file} does not exist, and no repository was given", hint=error.hint
        ) from None
    return read_named_file(repository, file)


def _exists(file: str) -> bool:
    """Return whether the file may exist; if access is denied, reading it reports that."""
    try:
        Path(file).stat()
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True
