"""The catalogue is one: the README, the man page and the rules say the same."""

from __future__ import annotations

import re
from pathlib import Path

from icectl.ops.validate import chunk_rules, metadata_rules
from icectl.ops.validate.rule import Rule
from icectl.ops.validate.rules import RULES
from icectl.ops.validate.summary import CAUSES

PROJECT = Path(__file__).parents[2]


def row(rule: Rule) -> str:
    return f"| {rule.code} | {rule.severity} | `{rule.level_name}` | {rule.title} |"


def test_codes_are_distinct_and_well_formed() -> None:
    every = [
        value
        for module in (metadata_rules, chunk_rules)
        for value in vars(module).values()
        if isinstance(value, Rule)
    ]
    assert len(every) == len(RULES)
    assert all(re.fullmatch(r"ICE\d{4}", rule.code) for rule in every)
    assert all(rule.explanation.endswith(".") and rule.title[0].islower() for rule in every)


def test_readme_has_every_rule() -> None:
    lines = (PROJECT / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("| ICE")] == [
        row(rule) for rule in RULES.values()
    ]


def test_man_page_has_every_rule() -> None:
    page = (PROJECT / "man" / "icectl-validate.1").read_text(encoding="utf-8")
    assert re.findall(r"\\fB(ICE\d{4})\\fR", page) == list(RULES)


def test_likely_causes_are_of_rules() -> None:
    codes = [code for codes in CAUSES.values() for code in codes]
    assert len(codes) == len(set(codes))
    assert set(codes) <= RULES.keys()
