"""Render findings and the rule catalogue."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from icectl.checks.rules import Description, Severity
from icectl.ops.validate.report import Finding, RuleSummary, ValidateResult
from icectl.render.blocks import Block, Column, Role, Table
from icectl.render.text import format_count, format_counts, join_first

_ROLES: dict[Severity, Role] = {"error": "bad", "warning": "warning", "info": "dim"}
SHOWN_REFS = 5
SHOWN_CHUNKS = 5
SUMMARY_FROM = 12
"""The number of findings from which a summary is useful."""


def render_validation(result: ValidateResult) -> Iterator[Block]:
    for finding in result.findings:
        yield from render_finding(finding)
    for note in result.notes:
        yield f"Note: {note}."
    if result.findings_left_out:
        yield f"... and {format_count(result.findings_left_out, 'finding')} more (--max-findings)."
    if sum(group.count for group in result.summary) >= SUMMARY_FROM:
        yield from _summary(result.summary)
    checked = result.checked
    read = f", {checked.chunks_read:,} chunks read" if checked.chunks_read else ""
    counts = {
        "snapshot": checked.snapshots,
        "transaction log": checked.transaction_logs,
        "manifest": checked.manifests,
        "chunk reference": checked.chunk_refs,
        "chunk": checked.chunks,
        "virtual source": checked.virtual_sources,
    }
    what = format_counts(counts, omit_zeros=True) or "the refs"
    yield f"Checked at level {result.level}: {what}{read}."
    found = format_findings(result)
    known = f" ({result.known:,} known)" if result.known else ""
    verdict: tuple[str, Role] = ("Sound", "good")
    if not result.ok:
        verdict = ("Problems found", "bad")
    elif checked.virtual_sources_skipped:
        verdict = ("Not everything was checked", "warning")
    yield (verdict, f": {found or 'nothing found'}{known}.")


def format_findings(result: ValidateResult) -> str:
    """Return text such as `1 error, 2 warnings`, or an empty text."""
    counts = {"error": result.errors, "warning": result.warnings, "note": result.infos}
    return format_counts(counts, omit_zeros=True)


def _summary(groups: Iterable[RuleSummary]) -> Iterator[Block]:
    yield "Summary:"
    for group in groups:
        code = (f"{group.severity} {group.code}", _ROLES[group.severity])
        common = f" in {group.common}" if group.common else ""
        cause = f"; likely cause: {group.likely_cause}" if group.likely_cause else ""
        count = format_count(group.count, "finding")
        yield ("    ", code, f": {count}{common}: {group.title}{cause}")


def render_finding(finding: Finding) -> Iterator[Block]:
    where = finding.object + (f", {finding.path}" if finding.path else "")
    known = " (known)" if finding.known else ""
    head = (f"{finding.severity} {finding.code}", _ROLES[finding.severity])
    yield (head, f"{known} ", (where, "path"))
    yield f"    {finding.title}: {finding.detail}"
    if finding.chunks:
        shown = join_first([str(list(chunk)) for chunk in finding.chunks], SHOWN_CHUNKS)
        yield f"    chunk {shown} of {finding.path}"
    refs = [*finding.branches, *(f"tag {name}" for name in finding.tags)]
    if refs:
        sound = finding.last_sound_version
        last = f"; last valid version: {sound}" if sound else "; no valid version"
        shown = join_first(refs, SHOWN_REFS)
        yield f"    reached by {shown}{last if finding.severity == 'error' else ''}"


def render_rules(rules: Iterable[Description]) -> Iterator[Block]:
    """Render one rule in full, or several rules as a table."""
    found = list(rules)
    if len(found) > 1:
        columns = (
            Column("CODE", lambda rule: rule.code, "id"),
            Column("SEVERITY", lambda rule: rule.severity),
            Column("LEVEL", lambda rule: rule.level_name),
            Column("RULE", lambda rule: rule.title, wraps=True),
        )
        yield Table(columns, found)
        return
    for rule in found:
        yield ((f"{rule.code}: {rule.title}", "title"),)
        yield f"{rule.severity}, found at level {rule.level_name}"
        yield ""
        yield from textwrap.wrap(rule.explanation, 79)
