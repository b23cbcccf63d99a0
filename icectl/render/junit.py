"""Findings as JUnit XML: one test case for each rule that was looked at."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from icectl.ops.validate.result import Finding, ValidateResult
from icectl.ops.validate.rule import Rule, Severity
from icectl.render.sizes import format_count

# What XML 1.0 cannot hold, not even as a reference.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def render_junit(result: ValidateResult, rules: Iterable[Rule], fail_on: Severity) -> str:
    """A rule fails by findings that make the run fail; others are its output."""
    failing = ("error", "warning") if fail_on == "warning" else ("error",)
    by_code: dict[str, list[Finding]] = defaultdict(list)
    for finding in result.findings:
        by_code[finding.code].append(finding)
    cases: list[str] = []
    failures = 0
    for rule in rules:
        found = by_code.get(rule.code, [])
        bad = [one for one in found if not one.known]
        # Findings can have been left out of the list; the rule fails by them, too.
        count = result.by_code.get(rule.code, 0)
        name = quoteattr(_clean(f"{rule.code} {rule.title}"))
        head = (
            f"    <testcase classname={quoteattr(f'icectl.validate.{rule.level_name}')} name={name}"
        )
        if not found and not count:
            cases.append(f"{head}/>")
            continue
        text = escape(_clean("\n".join(map(_line, found))))
        if count and rule.severity in failing:
            failures += 1
            first = _line(bad[0]) if bad else "all left out of the list"
            message = quoteattr(_clean(f"{format_count(count, 'finding')}: {first}"))
            body = f'<failure type="{rule.code}" message={message}>{text}</failure>'
        else:
            body = f"<system-out>{text}</system-out>"
        cases.append(f"{head}>{body}</testcase>")
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0"'
    return "\n".join(
        (
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<testsuites name="icectl validate" {counts}>',
            f'  <testsuite name="icectl validate" {counts}>',
            *cases,
            "  </testsuite>",
            "</testsuites>",
            "",
        )
    )


def _line(finding: Finding) -> str:
    where = finding.object + (f" {finding.path}" if finding.path else "")
    known = " (known)" if finding.known else ""
    return f"{finding.severity}{known} {where}: {finding.detail}"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
