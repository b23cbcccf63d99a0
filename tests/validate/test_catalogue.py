"""The catalogue of rules: codes, and the man page."""

from __future__ import annotations

import re
from pathlib import Path

from icectl.checks import rules
from icectl.checks.rules import Rule, catalogue
from icectl.ops.validate.report import CAUSES

PROJECT = Path(__file__).parents[2]


def test_codes_are_distinct_and_well_formed() -> None:
    every = [value for value in vars(rules).values() if isinstance(value, Rule)]
    assert [rule.code for rule in every] == list(catalogue())
    assert all(re.fullmatch(r"ICE\d{4}", code) for code in catalogue())
    for rule in catalogue().values():
        assert rule.explanation.endswith(".") and rule.title[0].islower()


def test_man_page_has_every_rule() -> None:
    page = (PROJECT / "man" / "man7" / "icectl-rules.7").read_text(encoding="utf-8")
    assert re.findall(r"\\fB(ICE\d{4})\\fR", page) == list(catalogue())


def test_likely_causes_are_of_rules() -> None:
    codes = [code for codes in CAUSES.values() for code in codes]
    assert len(codes) == len(set(codes))
    assert set(codes) <= catalogue().keys()
