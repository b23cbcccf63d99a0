"""What a rule is: a stable code, how bad it is to break it, and what to do then."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
"""From the mildest to the worst."""


class Level(enum.IntEnum):
    """How deep to look; each level includes those before it."""

    REFS = 0
    METADATA = 1
    MANIFESTS = 2
    CHUNKS = 3
    DATA = 4


@dataclass(frozen=True, slots=True)
class Rule:
    code: str
    severity: Severity
    level: Level | None
    """None: looked at with --virtual."""
    title: str
    explanation: str

    @property
    def level_name(self) -> str:
        return "--virtual" if self.level is None else self.level.name.lower()
