"""Render findings for CI systems: JUnit XML, SARIF 2.1.0 and annotations of GitHub Actions."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from icectl import __version__
from icectl.checks.rules import Description, Severity
from icectl.ops.validate.report import Finding, ValidateResult
from icectl.render.text import escape_commands, escape_controls, format_count

SUITE = "icectl validate"
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_SARIF_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_GITHUB_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
# Characters that XML 1.0 does not allow, not even as references.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def render_junit(result: ValidateResult, rules: Iterable[Description], fail_on: Severity) -> str:
    """Return one test case per rule.

    A rule fails if its findings make the run fail; other findings are its output.
    """
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
    known = " (known)" if finding.known else ""
    return f"{finding.severity}{known} {_where(finding)}: {finding.detail}"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)


def render_sarif(result: ValidateResult, rules: Iterable[Description]) -> str:
    catalogue = list(rules)
    places = {rule.code: place for place, rule in enumerate(catalogue)}
    driver = {
        "name": "icectl",
        "version": __version__,
        "rules": [
            {
                "id": rule.code,
                "shortDescription": {"text": rule.title},
                "fullDescription": {"text": rule.explanation},
                "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity]},
                "properties": {"level": rule.level_name},
            }
            for rule in catalogue
        ],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "utf16CodeUnits",
        "results": [_result(finding, places[finding.code]) for finding in result.findings],
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(finding: Finding, place: int) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": quote(finding.object, safe="/:")}}
    }
    if finding.path is not None:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.path}]
    document: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": place,
        "level": _SARIF_LEVELS[finding.severity],
        "message": {"text": f"{finding.title}: {finding.detail}"},
        "locations": [location],
        "partialFingerprints": {
            "finding/v1": f"{finding.code}:{finding.object}:{finding.path or ''}"
        },
        "properties": {"branches": finding.branches, "tags": finding.tags},
    }
    if finding.last_sound_version is not None:
        document["properties"]["lastSoundVersion"] = str(finding.last_sound_version)
    if finding.known:
        document["suppressions"] = [{"kind": "external", "justification": "in the baseline"}]
    return document


def render_github(result: ValidateResult) -> Iterator[str]:
    """Yield one workflow command per finding, which GitHub shows as an annotation."""
    for finding in result.findings:
        command = "notice" if finding.known else _GITHUB_COMMANDS[finding.severity]
        title = _github(f"{finding.code} {finding.title}", in_property=True)
        yield f"::{command} title={title}::{_github(f'{_where(finding)}: {finding.detail}')}"


def _github(text: str, *, in_property: bool = False) -> str:
    for character, escape in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(character, escape)
    if in_property:
        text = text.replace(":", "%3A").replace(",", "%2C")
    return escape_commands(escape_controls(text))


def _where(finding: Finding) -> str:
    return finding.object + (f" {finding.path}" if finding.path else "")
