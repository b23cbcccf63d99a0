"""Render findings as JUnit XML, with one test case for each checked rule."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from xml.etree import ElementTree

from icectl.checks.rules import Rule, Severity
from icectl.ops.validate.result import Finding, ValidateResult
from icectl.render.sizes import format_count

SUITE = "icectl validate"
# Characters that XML 1.0 does not allow, not even as references.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def render_junit(result: ValidateResult, rules: Iterable[Rule], fail_on: Severity) -> str:
    """A rule fails if its findings make the run fail; other findings are its output."""
    failing = ("error", "warning") if fail_on == "warning" else ("error",)
    by_code: dict[str, list[Finding]] = defaultdict(list)
    for finding in result.findings:
        by_code[finding.code].append(finding)
    suite = ElementTree.Element("testsuite", name=SUITE)
    failures = 0
    for rule in rules:
        found = by_code.get(rule.code, [])
        bad = [one for one in found if not one.known]
        # Findings that are omitted from the list also make the rule fail.
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
            first = _line(bad[0]) if bad else "all omitted from the list"
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
