"""`icectl diff`: show changes between two versions."""

from __future__ import annotations

import shlex
from functools import partial
from typing import Annotated

import typer

from icectl.cli.context import CommandContext
from icectl.cli.exit_codes import DONE, FINDINGS
from icectl.cli.options import REF_HELP, AtOpOption, Flag, check_exclusive, command
from icectl.cli.terminal import peek
from icectl.errors import UsageError
from icectl.ops.diff.chunks import Detail, read_chunk_changes
from icectl.ops.diff.nodes import diff_nodes
from icectl.ops.diff.versions import Versions, select_commit, select_versions
from icectl.render.diff import (
    diff_document,
    diff_lines,
    render_diff,
    render_names,
    render_stat,
)
from icectl.repository.repository import Repository
from icectl.repository.resolve import DEFAULT_REF, parse_range

EXAMPLES = """
icectl diff v1.0  # changes from the tag v1.0 to the tip of main
icectl diff --commit main~3  # changes of one commit
icectl diff main...experiment  # changes on the branch since it left main
icectl diff v1.0 v2.0 --path /surface --chunks  # one group, with chunk coordinates
icectl diff main~1 main --exit-code --quiet  # for scripts: 0 the same, 3 different
"""


@command(jsonl=True)
def diff(
    context: CommandContext,
    from_: Annotated[
        str | None, typer.Argument(metavar="FROM"), f"The older version. {REF_HELP}"
    ] = None,
    to: Annotated[
        str | None, typer.Argument(metavar="TO"), "The newer version. Default: main."
    ] = None,
    commit: Annotated[
        str | None, typer.Option(metavar="REF"), "Compare one commit with its parent."
    ] = None,
    merge_base: Annotated[Flag, "Start at the newest common ancestor of FROM and TO."] = False,
    path: Annotated[str, typer.Option(metavar="PATH"), "Only this node and its descendants."] = "/",
    chunks: Annotated[Flag, "Show chunk coordinates as ranges."] = False,
    stat: Annotated[Flag, "Show a table of chunks and bytes."] = False,
    name_only: Annotated[Flag, "Show only the changed paths."] = False,
    exit_code: Annotated[
        Flag, "Exit with 3 if there is a difference; with --quiet do not print the diff."
    ] = False,
    at_op: AtOpOption = None,
) -> int:
    """Show changes between two versions.

    TO defaults to main. A..B and A...B work as in git.

    Nodes are marked + (new), - (deleted), ~ (changed) and → (moved). If FROM is an ancestor of
    TO, the diff uses the transaction logs, including those of expired ancestors. Otherwise, or if
    a log is missing or damaged, it compares the content of the two versions: nodes by id, then by
    path, and chunks by their references.

    In the logs a node can be both new and updated, and a chunk can be written with the same
    content; a comparison of content does not show this. Whether a written chunk is new,
    overwritten or deleted is looked up in the manifests; if these are large, only with --stat,
    --chunks, --json or --jsonl. Byte counts are the lengths in references.
    """
    check_exclusive({"--chunks": chunks, "--stat": stat, "--name-only": name_only})
    repository = context.open_repository(at_op)
    versions = _select_versions(repository, from_, to, commit, merge_base)
    nodes = diff_nodes(repository, versions, path=path, progress=context.progress)
    if nodes.fallback is not None:
        context.warn(f"{nodes.fallback}; comparing the content instead")
    is_silent = exit_code and context.options.quiet and context.wants_text
    if name_only or is_silent:
        detail = Detail.NONE
    else:
        detail = Detail.FULL if chunks or stat or not context.wants_text else Detail.CHEAP
    begun = peek(
        read_chunk_changes(
            repository, nodes, detail=detail, deleted_arrays=stat, progress=context.progress
        )
    )
    different = begun is not None or not nodes.is_empty
    changes = begun or iter(())
    if is_silent:
        return FINDINGS if different else DONE
    if context.options.jsonl:
        context.emit_lines(diff_lines(nodes, changes, coordinates=chunks))
    elif context.options.json:
        context.emit_json(diff_document(nodes, changes, coordinates=chunks))
    elif name_only:
        context.output.write(render_names(nodes, changes), paged=True)
    else:
        show = render_stat if stat else partial(render_diff, coordinates=chunks)
        context.output.write(show(nodes, list(changes)), paged=True)
    if not different and context.wants_text:
        context.note("no differences")
    return FINDINGS if exit_code and different else DONE


def _select_versions(
    repository: Repository, from_: str | None, to: str | None, commit: str | None, merge_base: bool
) -> Versions:
    if commit is not None:
        hint = f"run `icectl diff --commit {shlex.quote(commit)}`"
        check_exclusive({"--commit": commit, "FROM": from_}, hint)
        check_exclusive({"--commit": commit, "--merge-base": merge_base}, hint)
        return select_commit(repository, commit)
    if from_ is None:
        raise UsageError(
            "diff needs a version to compare with",
            hint="run `icectl diff FROM [TO]` or `icectl diff --commit REF`",
        )
    refs = parse_range(repository, from_)
    if refs is not None:
        check_exclusive({from_: from_, "TO": to}, f"run `icectl diff {shlex.quote(from_)}`")
        from_, to, merge_base = refs.from_, refs.to, merge_base or refs.from_merge_base
    newer = DEFAULT_REF if to is None else to
    return select_versions(repository, from_, newer, merge_base=merge_base)
