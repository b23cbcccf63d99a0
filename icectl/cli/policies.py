"""Retention policies from options and the config file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from icectl.cli.values import parse_age, parse_moment
from icectl.errors import UsageError
from icectl.ops.expire.policy import Policy

if TYPE_CHECKING:
    from icectl.cli.context import CommandContext

LATEST_CUTOFF = 24 * 3600 * 1_000_000
"""How far a cutoff may be ahead of the storage's clock, because the clocks of writers differ."""


def read_policy(
    context: CommandContext, options: Mapping[str, Any], name: str | None
) -> Policy | None:
    """The policy of the options that are rules, or else of `--policy NAME` in the config file."""
    # An empty glob is a mistake, not a missing rule: it must not release more snapshots.
    given = {rule: value for rule, value in options.items() if value or value == ""}
    if name is not None:
        if given:
            raise UsageError(
                "--policy cannot be combined with other rules",
                hint="change the policy in the config file, or give all rules as options",
            )
        repository = context.options.repo or context.environ.get("ICECTL_REPO")
        given = context.config.policy(repository, name)
    elif not given:
        return None
    return build_policy(given, context.open_storage().read_clock)


def build_policy(given: dict[str, Any], read_clock: Callable[[], int]) -> Policy:
    """Build the policy from command-line options or values of the config file.

    Ages are relative to the storage's clock: a wrong local clock must not release young snapshots.
    """
    known = {field.name for field in fields(Policy)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise UsageError(
                f"unknown rule {name!r} in a policy", hint=f"use one of {', '.join(sorted(known))}"
            )
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if name == "older_than":
            now = read_clock()
            values[name] = parse_moment(str(value), now)
            if values[name] > now + LATEST_CUTOFF:  # such as a mistyped year
                raise UsageError("--older-than is in the future", hint="give an age such as 7d")
        elif name == "keep_within":
            values[name] = parse_age(str(value))
        elif name in ("keep_tagged", "branch", "protect"):
            values[name] = _parse_globs(name, [value] if isinstance(value, str) else value)
        elif name.startswith("delete_") and not isinstance(value, bool):
            raise UsageError(f"the rule {name} of a policy must be true or false")
        elif name.startswith("keep_") and not is_number:
            raise UsageError(f"the rule {name} of a policy must be a number")
        else:
            values[name] = value
    return Policy(**values)


def _parse_globs(name: str, globs: Any) -> tuple[str, ...]:
    if not isinstance(globs, list) or not all(isinstance(glob, str) for glob in globs):
        raise UsageError(f"the rule {name} of a policy must be a list of globs")
    if "" in globs:
        option = f"--{name.replace('_', '-')}"
        raise UsageError(f"{option} is empty", hint="give a name or a glob such as 'v*'")
    return tuple(globs)
