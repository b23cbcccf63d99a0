"""`icectl validate`: check the repository for damage."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

import typer

from icectl.checks.decoding import check_decoding_possible
from icectl.checks.rules import Level, catalogue, find_rules
from icectl.cli import exit_codes
from icectl.cli.context import CommandContext
from icectl.cli.engines import EngineOption, SparkPlace
from icectl.cli.options import REF_HELP, AtOpOption, File, Flag, check_exclusive, command
from icectl.errors import UsageError
from icectl.ops.files import check_outside, check_writable, write_private
from icectl.ops.validate.report import limit_findings, read_baseline
from icectl.ops.validate.run import ValidateOptions
from icectl.ops.validate.run import validate as run_validation
from icectl.pipeline.local_engine import local_engine
from icectl.pipeline.sampling import Sample
from icectl.render.ci_reports import render_github, render_junit, render_sarif
from icectl.render.json import render_json
from icectl.render.validate import render_rules, render_validation
from icectl.repository.ops_log import REPO_PATH
from icectl.storage.sources import SourceOpener

EXAMPLES = """
icectl validate  # refs, snapshots and transaction logs of every version
icectl validate main --level chunks  # everything reachable from main, with chunk files
icectl validate --level manifests --junit report.xml  # for a CI job
icectl validate --level data --sample 1/30  # a different thirtieth of the data each day
icectl validate --level chunks --at-op @3  # whether that state can be restored
icectl validate --explain ICE0401  # the meaning of a code and what to do
"""


@command(jsonl=True)
def validate(
    context: CommandContext,
    refs: Annotated[
        list[str] | None, typer.Argument(metavar="REF"), f"Check only what these reach. {REF_HELP}"
    ] = None,
    level: Annotated[
        Literal["refs", "metadata", "manifests", "chunks", "data"],
        typer.Option(metavar="LEVEL"),
        "How thoroughly to check; each level includes the previous ones. refs: the repo "
        "file and its ops log; metadata: snapshots and transaction logs; manifests: all chunk "
        "references; chunks: all chunk files, by listing; data: the bytes.",
    ] = "metadata",
    explain: Annotated[
        str | None, typer.Option(metavar="CODE"), "Explain a rule; all lists the rules."
    ] = None,
    fail_on: Annotated[
        Literal["error", "warning"],
        typer.Option(metavar="SEVERITY"),
        "Exit with 3 if there is a finding of at least this severity: error or warning.",
    ] = "error",
    virtual: Annotated[
        Flag,
        "Also check that each file with virtual chunks exists and is unchanged, if a "
        "container of the repository covers it. Sends one request per file. Storage options "
        "apply to files in the same kind of storage.",
    ] = False,
    allow_source: Annotated[
        list[str] | None,
        typer.Option(metavar="URL"),
        "With --virtual, also check files below this URL: on local disk, such as "
        "file:///data, or not covered by a container. Repeatable.",
    ] = None,
    decode: Annotated[Flag, "At level data: decode each chunk as its zarr.json says."] = False,
    sample: Annotated[
        Sample | None,
        typer.Option(metavar="1%|10GB|1/30", parser=Sample.parse),
        "At level data: read only this share or size, a different part each day; "
        "1/30 reads everything in 30 days.",
    ] = None,
    baseline: Annotated[File, "Do not fail on findings in this file."] = None,
    write_baseline: Annotated[File, "Write all findings as a baseline."] = None,
    known_missing: Annotated[
        File, "Write the missing objects to FILE, for `icectl gc --known-missing`."
    ] = None,
    missing: Annotated[
        File,
        "Write the paths of missing and damaged files to FILE, one per line, to fetch them from a "
        "mirror, for example with `rclone copy --files-from FILE`.",
    ] = None,
    junit: Annotated[File, "Write a JUnit report."] = None,
    sarif: Annotated[File, "Write a SARIF report."] = None,
    github: Annotated[Flag, "Print annotations for GitHub Actions instead of a table."] = False,
    max_findings: Annotated[
        int,
        typer.Option(metavar="COUNT", min=1),
        "List at most this many new and this many known findings; all are counted.",
    ] = 1000,
    at_op: AtOpOption = None,
    engine: EngineOption = "auto",
    *,
    spark: SparkPlace,
) -> int | None:
    """Check the repository for damage.

    Checks every rule of the specification on the state of the repo file at the start; writers
    need not stop. Each finding has a stable code, the affected file and node, the branches and
    tags that reach it, and the newest version without an error. Never changes the repository.

    Exit code 0 means that the repository is sound, 3 that there are findings (see --fail-on); any
    other code means that the check could not be completed. The files have no checksums: a faulty
    disk can change data that is stored only once, such as an attribute of a single version,
    without breaking any rule.

    With --engine spark, the executors check manifests and chunks. They need icectl and its
    libraries, and use their own credentials.
    """
    if explain is not None:
        context.emit_list("rules", find_rules(explain), render_rules)
        return None
    check_exclusive({"--github": github, "--json": context.options.json})
    check_exclusive({"--github": github, "--jsonl": context.options.jsonl})
    files = {
        "--write-baseline": write_baseline,
        "--known-missing": known_missing,
        "--missing": missing,
        "--junit": junit,
        "--sarif": sarif,
    }
    for option, path in files.items():
        if path is not None:
            check_writable(option, path)
            check_outside(path, context.open_storage().location)
    engines = spark.choose(engine, context)
    check_exclusive({"--virtual": virtual, "Spark": engines.is_asked_for})
    if level != "data" and (sample is not None or decode):
        raise UsageError(
            "--sample and --decode require --level data", hint="add --level data, or omit them"
        )
    if decode:
        check_decoding_possible()
    place = context.location
    options = ValidateOptions(
        level=Level[level.upper()],
        refs=tuple(refs or ()),
        fail_on=fail_on,
        # A baseline contains all findings, regardless of --max-findings.
        max_findings=max_findings if write_baseline is None else sys.maxsize,
        known=frozenset() if baseline is None else read_baseline(baseline),
        decode=decode,
        sample=sample,
        now=context.now(),
        open_source=(
            SourceOpener(place.url, place.storage_options, context.environ) if virtual else None
        ),
        allowed_sources=_parse_allowed(allow_source or (), virtual),
        choose_engine=local_engine if virtual else engines.choose,
        state=context.find_state(at_op) or REPO_PATH,
    )
    with engines:
        result, report = run_validation(context.open_storage(), options, context.progress)
    result = replace(result, notes=tuple(map(context.describe, result.notes)))
    if write_baseline is not None:
        write_private(write_baseline, (f"{render_json(one)}\n" for one in result.findings))
        result = limit_findings(result, max_findings)
    if junit is not None:
        checked = [
            rule
            for rule in catalogue().values()
            if (virtual if rule.level is None else rule.level <= options.level)
        ]
        write_private(junit, [render_junit(result, checked, fail_on)])
    if sarif is not None:
        write_private(sarif, [render_sarif(result, catalogue().values())])
    if known_missing is not None:
        write_private(known_missing, (f"{path}\n" for path in report.missing))
    if missing is not None:
        write_private(missing, (f"{path}\n" for path in sorted(report.lost_files)))
    if github:
        context.output.write_lines(render_github(result))
    else:
        context.emit(result, render_validation, lines="findings", paged=True)
    return exit_codes.DONE if result.ok else exit_codes.FINDINGS


def _parse_allowed(urls: Sequence[str], virtual: bool) -> tuple[str, ...]:
    if urls and not virtual:
        raise UsageError("--allow-source requires --virtual", hint="add --virtual")
    for url in urls:
        if not url.partition("://")[2]:
            raise UsageError(
                "--allow-source needs a URL", hint="write file:///DIRECTORY or s3://BUCKET/PREFIX"
            )
    return tuple(urls)
