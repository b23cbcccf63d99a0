"""Render findings as SARIF 2.1.0, which code hosts show in a pull request."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from icectl import __version__
from icectl.checks.rules import Rule
from icectl.ops.validate.result import Finding, ValidateResult

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render_sarif(result: ValidateResult, rules: Iterable[Rule]) -> str:
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
                "defaultConfiguration": {"level": _LEVELS[rule.severity]},
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
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(finding: Finding, place: int) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": quote(finding.object, safe="/:")}}
    }
    if finding.path is not None:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.path}]
    document: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": place,
        "level": _LEVELS[finding.severity],
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
