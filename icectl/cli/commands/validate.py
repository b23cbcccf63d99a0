"""`icectl validate`: whether the repository is sound."""

from __future__ import annotations

from typing import Annotated

from icectl.cli import exit_codes
from icectl.cli.context import CommandContext
from icectl.cli.options import REF_HELP, command
from icectl.cli.parameters import Argument, Option

EXAMPLES = {
    "validate": (
        ("icectl validate", "refs, snapshots and transaction logs of every version"),
        ("icectl validate main --level chunks", "what main leads to, down to each chunk file"),
        ("icectl validate --level manifests --junit report.xml", "for a CI job"),
        ("icectl validate --level data --sample 1/30", "another thirtieth of the data each day"),
        ("icectl validate --explain ICE0401", "what a code means and what to do"),
    )
}
LEVELS = ("refs", "metadata", "manifests", "chunks", "data")


@command(jsonl=True)
def validate(
    context: CommandContext,
    refs: Annotated[
        list[str] | None,
        Argument("REF", help=f"Look only at what these lead to. {REF_HELP}"),
    ] = None,
    level: Annotated[
        str,
        Option(
            "--level",
            metavar="LEVEL",
            choices=LEVELS,
            help="How deep to look; each level includes those before it. refs: the repo file and "
            "its ops log; metadata: snapshots and transaction logs; manifests: every chunk "
            "reference; chunks: every chunk file, by listing; data: the bytes.",
        ),
    ] = "metadata",
    explain: Annotated[
        str | None,
        Option("--explain", metavar="CODE", help="Explain a rule, or list them with all."),
    ] = None,
    fail_on: Annotated[
        str,
        Option(
            "--fail-on",
            metavar="SEVERITY",
            choices=("error", "warning"),
            help="Exit with 3 when there is a finding this severe.",
        ),
    ] = "error",
    max_findings: Annotated[
        int,
        Option(
            "--max-findings",
            metavar="COUNT",
            minimum=1,
            help="List no more than this; all are counted.",
        ),
    ] = 1000,
) -> int | None:
    """Check whether the repository is sound.

    Every rule of the specification is checked on the state that the repo file had at the
    start; writers may go on. Each finding has a stable code, the file and node that it is
    about, the branches and tags that lead there, and the newest version without an error.
    Nothing is ever changed.

    Exit code 0 says that it is sound, 3 that there are findings; any other code that it could
    not look. The files have no checksums: what is stored only once, such as an attribute that
    a single version has, can be changed by a damaged disk without breaking any rule.
    """
    from icectl.ops.gc.watch import Watch
    from icectl.ops.validate.rule import Level
    from icectl.ops.validate.rules import find_rules
    from icectl.ops.validate.run import ValidateOptions
    from icectl.ops.validate.run import validate as run_validation
    from icectl.render.validate import render_rules, render_validation

    if explain is not None:
        context.emit_list("rules", find_rules(explain), render_rules)
        return None
    options = ValidateOptions(
        level=Level[level.upper()],
        refs=tuple(refs or ()),
        fail_on="warning" if fail_on == "warning" else "error",
        max_findings=max_findings,
    )
    watch = Watch(lambda label, total, unit: context.progress(label, total, unit=unit))
    result, _missing = run_validation(context.open_storage(), options, watch)
    if context.options.jsonl:
        context.emit_list("findings", result.findings, lambda _items, _style: ())
    else:
        context.emit(result, render_validation, paged=True)
    return exit_codes.DONE if result.ok else exit_codes.FINDINGS
