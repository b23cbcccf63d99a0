"""Retention policies from options and the config file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from icectl.cli.values import parse_age, parse_moment
from icectl.errors import UsageError
from icectl.ops.expire.policy import Policy

LATEST_CUTOFF = 24 * 3600 * 1_000_000
"""How far a cutoff may be ahead of the storage's clock, because the clocks of writers differ."""


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
            values[name] = _parse_cutoff(str(value), read_clock())
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


def _parse_cutoff(text: str, now: int) -> int:
    """Return the time; raise `UsageError` if it is in the future, such as a mistyped year."""
    cutoff = parse_moment(text, now)
    if cutoff > now + LATEST_CUTOFF:
        raise UsageError("--older-than is in the future", hint="give an age such as 7d")
    return cutoff
