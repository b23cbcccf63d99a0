"""Findings as JUnit XML: one test case for each rule that was looked at."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from xml.etree import ElementTree

from icectl.ops.validate.result import Finding, ValidateResult
from icectl.ops.validate.rule import Rule, Severity
from icectl.render.sizes import format_count

SUITE = "icectl validate"
# What XML 1.0 cannot hold, not even as a reference.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def render_junit(result: ValidateResult, rules: Iterable[Rule], fail_on: Severity) -> str:
    """A rule fails by findings that make the run fail; others are its output."""
    failing = ("error", "warning") if fail_on == "warning" else ("error",)
    by_code: dict[str, list[Finding]] = defaultdict(list)
    for finding in result.findings:
        by_code[finding.code].append(finding)
    suite = ElementTree.Element("testsuite", name=SUITE)
    failures = 0
    for rule in rules:
        found = by_code.get(rule.code, [])
        bad = [one for one in found if not one.known]
        # Findings can have been left out of the list; the rule fails by them, too.
        count = result.by_code.get(rule.code, 0)
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"icectl.validate.{rule.level_name}",
            name=_clean(f"{rule.code} {rule.title}"),
        )
        if not found and not count:
            continue
        text = _clean("\n".join(map(_line, found)))
        if count and rule.severity in failing:
            failures += 1
            first = _line(bad[0]) if bad else "all left out of the list"
            message = _clean(f"{format_count(count, 'finding')}: {first}")
            body = ElementTree.SubElement(case, "failure", type=rule.code, message=message)
        else:
            body = ElementTree.SubElement(case, "system-out")
        body.text = text
    counts = {"tests": str(len(suite)), "failures": str(failures), "errors": "0"}
    suite.attrib.update(counts)
    suites = ElementTree.Element("testsuites", {"name": SUITE, **counts})
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _line(finding: Finding) -> str:
    where = finding.object + (f" {finding.path}" if finding.path else "")
    known = " (known)" if finding.known else ""
    return f"{finding.severity}{known} {where}: {finding.detail}"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
