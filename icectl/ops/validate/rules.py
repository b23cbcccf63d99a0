"""The catalogue of rules by code.

A code is never given to another rule. The man page, the README and `validate --explain` are
made from this list, and a test makes exactly the damage that each rule is about.
"""

from __future__ import annotations

from icectl.errors import Remedy, UsageError
from icectl.ops.validate import chunk_rules, metadata_rules
from icectl.ops.validate.rule import Rule

RULES: dict[str, Rule] = {
    rule.code: rule
    for module in (metadata_rules, chunk_rules)
    for rule in vars(module).values()
    if isinstance(rule, Rule)
}


def find_rules(code: str) -> list[Rule]:
    """The rule with this code, or every rule for `all`."""
    if code.lower() == "all":
        return list(RULES.values())
    rule = RULES.get(code.upper())
    if rule is None:
        raise UsageError(f"there is no rule {code!r}", hint=Remedy("list-rules"))
    return [rule]
