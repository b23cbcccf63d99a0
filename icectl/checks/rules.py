"""The names of all rules that `validate` checks, in the order of their codes.

To find where a rule is checked, search `icectl/` for its name: ICE0302 is `MANIFEST_SIZE`, and
`checks/manifest.py` reports it. `rules.toml` has the severity, the level and the texts of each
rule; the man page and `validate --explain` are generated from it. A code is never reused for
another rule, and a test makes the damage of each rule.
"""

from __future__ import annotations

import enum
import tomllib
from dataclasses import dataclass
from pkgutil import get_data
from typing import Literal, cast

from icectl.errors import Remedy, UsageError

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
"""From the mildest to the worst."""


class Level(enum.IntEnum):
    """How deep `validate` looks; each level includes those before it."""

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
    """None: checked with --virtual."""
    title: str
    explanation: str

    @property
    def level_name(self) -> str:
        return "--virtual" if self.level is None else self.level.name.lower()


def _read_rules() -> dict[str, Rule]:
    content = get_data(__package__, "rules.toml")
    assert content is not None
    catalogue = tomllib.loads(content.decode())
    return {
        code: _make_rule(code, entry, catalogue["advice"])
        for code, entry in catalogue["rules"].items()
    }


def _make_rule(code: str, entry: dict[str, str], advice: dict[str, str]) -> Rule:
    texts = [entry.get("explanation", "")]
    if "advice" in entry:
        texts.append(advice[entry["advice"]])
    return Rule(
        code,
        cast(Severity, entry["severity"]),
        Level[entry["level"].upper()] if "level" in entry else None,
        entry["title"],
        # The line breaks of the file are not part of the text.
        " ".join(" ".join(texts).split()),
    )


RULES = _read_rules()

# The repo file and the refs.
REPO_UNREADABLE = RULES["ICE0001"]
REPO_SPEC_VERSION = RULES["ICE0002"]
REPO_ORDER = RULES["ICE0003"]
REF_TARGET = RULES["ICE0004"]
PARENT_TARGET = RULES["ICE0005"]
ANCESTRY_LOOP = RULES["ICE0006"]
MAIN_MISSING = RULES["ICE0007"]
DELETED_TAG_EXISTS = RULES["ICE0008"]
ROOT_SNAPSHOT = RULES["ICE0009"]
FLAG_TWICE = RULES["ICE0010"]
REPO_VALUE = RULES["ICE0011"]
STATUS_UNKNOWN = RULES["ICE0012"]
OPS_LOG_ORDER = RULES["ICE0013"]
BACKUP_MISSING = RULES["ICE0014"]
BACKUP_UNREADABLE = RULES["ICE0015"]
STATE_UNEXPLAINED = RULES["ICE0016"]
PRUNED_LOGS = RULES["ICE0017"]
REF_FOREIGN = RULES["ICE0018"]
NEWEST_HAS_BACKUP = RULES["ICE0019"]
REPO_IS_OLD = RULES["ICE0020"]
FUTURE_TIME = RULES["ICE0022"]
CONDITIONS_OFF = RULES["ICE0023"]

# Snapshots.
SNAPSHOT_MISSING = RULES["ICE0101"]
SNAPSHOT_UNREADABLE = RULES["ICE0102"]
SNAPSHOT_ID = RULES["ICE0103"]
SNAPSHOT_PARENT = RULES["ICE0104"]
SNAPSHOT_VERSION = RULES["ICE0105"]
SNAPSHOT_INFO = RULES["ICE0106"]
NODE_ORDER = RULES["ICE0107"]
NODE_PATH = RULES["ICE0108"]
NODE_ID_TWICE = RULES["ICE0109"]
NODE_PARENT = RULES["ICE0110"]
SNAPSHOT_METADATA = RULES["ICE0111"]
MANIFEST_LIST = RULES["ICE0112"]
MANIFEST_UNLISTED = RULES["ICE0113"]
MANIFEST_UNUSED = RULES["ICE0114"]
MANIFEST_CLAIMS = RULES["ICE0115"]
EXTENTS_SHAPE = RULES["ICE0116"]
EXTENTS_OVERLAP = RULES["ICE0117"]
EXTENTS_GRID = RULES["ICE0118"]
ZARR_METADATA = RULES["ICE0119"]
ZARR_SHAPE = RULES["ICE0120"]
NODE_UNKNOWN = RULES["ICE0121"]
NODE_COMPONENT_ORDER = RULES["ICE0122"]

# Transaction logs.
LOG_MISSING = RULES["ICE0201"]
LOG_UNREADABLE = RULES["ICE0202"]
LOG_ID = RULES["ICE0203"]
LOG_ORDER = RULES["ICE0204"]
LOG_TWICE = RULES["ICE0205"]
LOG_NOT_EMPTY = RULES["ICE0206"]
LOG_CLAIMS = RULES["ICE0207"]
LOG_OMITS = RULES["ICE0208"]
LOG_CHUNKS = RULES["ICE0209"]
LOG_MOVES = RULES["ICE0210"]
LOG_INITIAL = RULES["ICE0211"]
LOG_NO_EFFECT = RULES["ICE0212"]

# Manifests.
MANIFEST_MISSING = RULES["ICE0301"]
MANIFEST_SIZE = RULES["ICE0302"]
MANIFEST_UNREADABLE = RULES["ICE0303"]
MANIFEST_ID = RULES["ICE0304"]
MANIFEST_COUNT = RULES["ICE0305"]
MANIFEST_ARRAYS = RULES["ICE0306"]
REFERENCE_ORDER = RULES["ICE0307"]
REFERENCE_TWICE = RULES["ICE0308"]
REFERENCE_KIND = RULES["ICE0309"]
REFERENCE_EXTENTS = RULES["ICE0310"]
REFERENCE_DIMENSIONS = RULES["ICE0311"]
REFERENCE_EMPTY = RULES["ICE0312"]
REFERENCE_LOCATION = RULES["ICE0313"]
REFERENCE_CHECKSUMS = RULES["ICE0314"]
REFERENCE_SHARED = RULES["ICE0315"]
REFERENCE_UNLOGGED = RULES["ICE0316"]
ARRAY_UNREFERENCED = RULES["ICE0317"]

# Chunks.
CHUNK_MISSING = RULES["ICE0401"]
CHUNK_SHORT = RULES["ICE0402"]
CHUNK_LONG = RULES["ICE0403"]
ORPHANS = RULES["ICE0404"]
FOREIGN = RULES["ICE0405"]
CHUNK_UNREADABLE = RULES["ICE0501"]
CHUNK_UNDECODABLE = RULES["ICE0502"]
CODECS_UNKNOWN = RULES["ICE0503"]
CHUNK_TOO_LARGE = RULES["ICE0504"]

# Sources of virtual chunks.
SOURCE_MISSING = RULES["ICE0601"]
SOURCE_SHORT = RULES["ICE0602"]
SOURCE_CHANGED = RULES["ICE0603"]
SOURCE_CONTAINER = RULES["ICE0604"]
SOURCE_UNCHECKED = RULES["ICE0605"]


def find_rules(code: str) -> list[Rule]:
    """The rule with this code, or every rule for `all`."""
    if code.lower() == "all":
        return list(RULES.values())
    rule = RULES.get(code.upper())
    if rule is None:
        raise UsageError(f"there is no rule {code!r}", hint=Remedy("list-rules"))
    return [rule]
