"""The maintenance of a repository in the config file: `[repositories.NAME.maintenance]`.

Every value is parsed by the function that parses the command-line option of the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from icectl.checks.rules import Level
from icectl.cli.config_file import ConfigFile, malformed
from icectl.cli.policies import build_policy
from icectl.cli.values import parse_age
from icectl.errors import IcectlError, UsageError
from icectl.ops.expire.policy import Policy
from icectl.ops.gc.run import GcOptions
from icectl.ops.gc.safeguards import YOUNGEST_CUTOFF, MaxDelete
from icectl.ops.maintain import BranchRule, MaintenancePolicy
from icectl.ops.validate.run import ValidateOptions
from icectl.pipeline.sampling import Sample

EXPIRE = "expire"
OLDER_THAN = "gc_older_than"
MAX_DELETE = "gc_max_delete"
BACKUPS = "overwritten_older_than"
TRUNCATE = "truncate_ops_log"
LEVEL = "validate"
SAMPLE = "validate_sample"
PROTECT = "protect_branches"
BRANCHES = "delete_branches"
KEYS = (EXPIRE, OLDER_THAN, MAX_DELETE, BACKUPS, TRUNCATE, LEVEL, SAMPLE, PROTECT, BRANCHES)
STEPS = (BRANCHES, EXPIRE, OLDER_THAN, LEVEL)
"""The keys that ask for a step; the others need one of them."""
NEEDS = {
    MAX_DELETE: OLDER_THAN,
    BACKUPS: OLDER_THAN,
    TRUNCATE: BACKUPS,
    SAMPLE: LEVEL,
    PROTECT: BRANCHES,
}
RULE_KEYS = ("match", "older_than")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MaintenanceTable:
    """The maintenance of one repository; every error names the file and the key."""

    config: ConfigFile
    repository: str
    values: Mapping[str, Any]

    def policy_at(self, now: int, local_now: int) -> MaintenancePolicy:
        """The policy at the time `now` of the storage; `local_now` chooses the sample of today."""
        _check_known(self.values, KEYS, self._malformed)
        if not any(key in self.values for key in STEPS):
            raise self._malformed("", f"it needs one of {', '.join(STEPS)}")
        for key, needed in NEEDS.items():
            if key in self.values and needed not in self.values:
                raise self._malformed(key, f"it requires {needed}")
        protect = self._parse(PROTECT, _parse_globs) or ()
        expire = self._parse(EXPIRE, lambda name: self._expiration(name, now))
        if expire is not None and expire.delete_expired_branches:
            self._check_protected(protect, expire)
        return MaintenancePolicy(
            delete_branches=self._branch_rules(now),
            protect_branches=protect,
            expire=expire,
            gc=self._collection(now),
            validate=self._validation(local_now),
        )

    def _expiration(self, name: object, now: int) -> Policy:
        rules = self.config.policy(self.repository, _parse_text(name))
        policy = build_policy(rules, lambda: now)
        policy.check()
        return policy

    def _check_protected(self, protect: tuple[str, ...], expire: Policy) -> None:
        """`UsageError` if expire could delete a branch that looks protected."""
        missing = [glob for glob in protect if glob not in expire.protect]
        if missing:
            name = self.values[EXPIRE]
            raise self._malformed(
                PROTECT,
                f"the policy {name} deletes expired branches and does not protect {missing[0]}",
                f"add {missing[0]!r} to protect in repositories.{self.repository}.policies.{name}",
            )

    def _collection(self, now: int) -> GcOptions | None:
        age = self._parse(OLDER_THAN, _parse_long_age)
        backups_age = self._parse(BACKUPS, _parse_long_age)
        limit = self._parse(MAX_DELETE, _parse_limit)
        truncate = self._parse(TRUNCATE, _parse_switch)
        if age is None:
            return None
        return GcOptions(
            cutoff=now - age,
            max_delete=limit,
            backups_older_than=None if backups_age is None else now - backups_age,
            truncate_ops_log=bool(truncate),
        )

    def _validation(self, now: int) -> ValidateOptions | None:
        level = self._parse(LEVEL, _parse_level)
        sample = self._parse(SAMPLE, lambda text: Sample.parse(_parse_text(text)))
        if sample is not None and level is not Level.DATA:
            raise self._malformed(SAMPLE, f'it requires {LEVEL} = "data"')
        return None if level is None else ValidateOptions(level=level, sample=sample, now=now)

    def _branch_rules(self, now: int) -> tuple[BranchRule, ...]:
        tables = self.values.get(BRANCHES, [])
        if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
            header = f"[[repositories.{self.repository}.maintenance.{BRANCHES}]]"
            raise self._malformed(BRANCHES, f"it must be a list of tables; write {header}")
        return tuple(self._branch_rule(table, now) for table in tables)

    def _branch_rule(self, table: Mapping[str, Any], now: int) -> BranchRule:
        _check_known(table, RULE_KEYS, lambda key, why: self._malformed(f"{BRANCHES}.{key}", why))
        for key in RULE_KEYS:
            if key not in table:
                raise self._malformed(BRANCHES, f"a rule has no {key}")
        return BranchRule(
            self._checked(f"{BRANCHES}.match", table["match"], _parse_globs),
            now - self._checked(f"{BRANCHES}.older_than", table["older_than"], _parse_an_age),
        )

    def _parse(self, key: str, parse: Callable[[Any], T]) -> T | None:
        return self._checked(key, self.values[key], parse) if key in self.values else None

    def _checked(self, key: str, value: Any, parse: Callable[[Any], T]) -> T:
        try:
            return parse(value)
        except IcectlError as error:
            hint = error.hint if isinstance(error.hint, str) else None
            raise self._malformed(key, error.message, hint) from None

    def _malformed(self, key: str, reason: str, hint: str | None = None) -> UsageError:
        name = f"repositories.{self.repository}.maintenance" + (f".{key}" if key else "")
        return malformed(self.config.path, f"{name}: {reason}", hint)


def _check_known(
    table: Mapping[str, Any], known: tuple[str, ...], error: Callable[[str, str], UsageError]
) -> None:
    for key in table:
        if key not in known:
            raise error(key, f"unknown key; use one of {', '.join(known)}")


def _parse_text(value: object) -> str:
    if not isinstance(value, str):
        raise UsageError("it must be a string")
    return value


def _parse_an_age(value: object) -> int:
    return parse_age(_parse_text(value))


def _parse_long_age(value: object) -> int:
    age = _parse_an_age(value)
    if age < YOUNGEST_CUTOFF:
        raise UsageError("less than 24 hours may be work that is not committed yet")
    return age


def _parse_limit(value: object) -> MaxDelete:
    try:
        return MaxDelete.parse(str(value))
    except ValueError:
        raise UsageError(f"invalid value {value!r}", hint='write "20%" or a whole number') from None


def _parse_switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError("it must be true or false")
    return value


def _parse_level(value: object) -> Level:
    levels = {level.name.lower(): level for level in Level}
    found = levels.get(_parse_text(value))
    if found is None:
        raise UsageError(f"{value!r} is not a level", hint=f"use one of {', '.join(levels)}")
    return found


def _parse_globs(value: object) -> tuple[str, ...]:
    globs = [value] if isinstance(value, str) else value
    if not isinstance(globs, list) or not all(isinstance(one, str) and one for one in globs):
        raise UsageError("it must be a glob, or a list of globs")
    return tuple(globs)
