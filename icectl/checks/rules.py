"""The names of all rules that `validate` checks, in the order of their codes.

To find where a rule is checked, search `icectl/` for its name: ICE0302 is `MANIFEST_SIZE`, and
`checks/manifest.py` reports it. `rules.toml` has the severity, the level and the texts of each
rule; the man page and `validate --explain` are generated from it. A code is never reused for
another rule, and a test makes the damage of each rule.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cache
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
    other_severity: Severity | None = None
    """In place of the catalogue's, if the cause is harmless."""

    @property
    def severity(self) -> Severity:
        return self.other_severity or catalogue()[self.code].severity

    @property
    def title(self) -> str:
        return catalogue()[self.code].title


@dataclass(frozen=True, slots=True)
class Description:
    code: str
    severity: Severity
    level: Level | None
    """None: checked with --virtual."""
    title: str
    explanation: str

    @property
    def level_name(self) -> str:
        return "--virtual" if self.level is None else self.level.name.lower()


@cache
def catalogue() -> dict[str, Description]:
    """Describe every rule, by code. Read late: most runs of gc find nothing to report."""
    import tomllib

    content = get_data(__package__, "rules.toml")
    assert content is not None
    found = tomllib.loads(content.decode())
    return {code: _describe(code, entry, found["advice"]) for code, entry in found["rules"].items()}


def _describe(code: str, entry: dict[str, str], advice: dict[str, str]) -> Description:
    texts = [entry.get("explanation", "")]
    if "advice" in entry:
        texts.append(advice[entry["advice"]])
    return Description(
        code,
        cast(Severity, entry["severity"]),
        Level[entry["level"].upper()] if "level" in entry else None,
        entry["title"],
        # The line breaks of the file are not part of the text.
        " ".join(" ".join(texts).split()),
    )


# The repo file and the refs.
REPO_UNREADABLE = Rule("ICE0001")
REPO_SPEC_VERSION = Rule("ICE0002")
REPO_ORDER = Rule("ICE0003")
REF_TARGET = Rule("ICE0004")
PARENT_TARGET = Rule("ICE0005")
ANCESTRY_LOOP = Rule("ICE0006")
MAIN_MISSING = Rule("ICE0007")
DELETED_TAG_EXISTS = Rule("ICE0008")
ROOT_SNAPSHOT = Rule("ICE0009")
FLAG_TWICE = Rule("ICE0010")
REPO_VALUE = Rule("ICE0011")
STATUS_UNKNOWN = Rule("ICE0012")
OPS_LOG_ORDER = Rule("ICE0013")
BACKUP_MISSING = Rule("ICE0014")
BACKUP_UNREADABLE = Rule("ICE0015")
STATE_UNEXPLAINED = Rule("ICE0016")
PRUNED_LOGS = Rule("ICE0017")
REF_FOREIGN = Rule("ICE0018")
NEWEST_HAS_BACKUP = Rule("ICE0019")
REPO_IS_OLD = Rule("ICE0020")
FUTURE_TIME = Rule("ICE0022")
CONDITIONS_OFF = Rule("ICE0023")

# Snapshots.
SNAPSHOT_MISSING = Rule("ICE0101")
SNAPSHOT_UNREADABLE = Rule("ICE0102")
SNAPSHOT_ID = Rule("ICE0103")
SNAPSHOT_PARENT = Rule("ICE0104")
SNAPSHOT_VERSION = Rule("ICE0105")
SNAPSHOT_INFO = Rule("ICE0106")
NODE_ORDER = Rule("ICE0107")
NODE_PATH = Rule("ICE0108")
NODE_ID_TWICE = Rule("ICE0109")
NODE_PARENT = Rule("ICE0110")
SNAPSHOT_METADATA = Rule("ICE0111")
MANIFEST_LIST = Rule("ICE0112")
MANIFEST_UNLISTED = Rule("ICE0113")
MANIFEST_UNUSED = Rule("ICE0114")
MANIFEST_CLAIMS = Rule("ICE0115")
EXTENTS_SHAPE = Rule("ICE0116")
EXTENTS_OVERLAP = Rule("ICE0117")
EXTENTS_GRID = Rule("ICE0118")
ZARR_METADATA = Rule("ICE0119")
ZARR_SHAPE = Rule("ICE0120")
NODE_UNKNOWN = Rule("ICE0121")
NODE_COMPONENT_ORDER = Rule("ICE0122")

# Transaction logs.
LOG_MISSING = Rule("ICE0201")
LOG_UNREADABLE = Rule("ICE0202")
LOG_ID = Rule("ICE0203")
LOG_ORDER = Rule("ICE0204")
LOG_TWICE = Rule("ICE0205")
LOG_NOT_EMPTY = Rule("ICE0206")
LOG_CLAIMS = Rule("ICE0207")
LOG_OMITS = Rule("ICE0208")
LOG_CHUNKS = Rule("ICE0209")
LOG_MOVES = Rule("ICE0210")
LOG_INITIAL = Rule("ICE0211")
LOG_NO_EFFECT = Rule("ICE0212")

# Manifests.
MANIFEST_MISSING = Rule("ICE0301")
MANIFEST_SIZE = Rule("ICE0302")
MANIFEST_UNREADABLE = Rule("ICE0303")
MANIFEST_ID = Rule("ICE0304")
MANIFEST_COUNT = Rule("ICE0305")
MANIFEST_ARRAYS = Rule("ICE0306")
REFERENCE_ORDER = Rule("ICE0307")
REFERENCE_TWICE = Rule("ICE0308")
REFERENCE_KIND = Rule("ICE0309")
REFERENCE_EXTENTS = Rule("ICE0310")
REFERENCE_DIMENSIONS = Rule("ICE0311")
REFERENCE_EMPTY = Rule("ICE0312")
REFERENCE_LOCATION = Rule("ICE0313")
REFERENCE_CHECKSUMS = Rule("ICE0314")
REFERENCE_SHARED = Rule("ICE0315")
REFERENCE_UNLOGGED = Rule("ICE0316")
ARRAY_UNREFERENCED = Rule("ICE0317")

# Chunks.
CHUNK_MISSING = Rule("ICE0401")
CHUNK_SHORT = Rule("ICE0402")
CHUNK_LONG = Rule("ICE0403")
ORPHANS = Rule("ICE0404")
FOREIGN = Rule("ICE0405")
CHUNK_UNREADABLE = Rule("ICE0501")
CHUNK_UNDECODABLE = Rule("ICE0502")
CODECS_UNKNOWN = Rule("ICE0503")
CHUNK_TOO_LARGE = Rule("ICE0504")

# Sources of virtual chunks.
SOURCE_MISSING = Rule("ICE0601")
SOURCE_SHORT = Rule("ICE0602")
SOURCE_CHANGED = Rule("ICE0603")
SOURCE_CONTAINER = Rule("ICE0604")
SOURCE_UNCHECKED = Rule("ICE0605")


def find_rules(code: str) -> list[Description]:
    """The rule with this code, or every rule for `all`."""
    if code.lower() == "all":
        return list(catalogue().values())
    rule = catalogue().get(code.upper())
    if rule is None:
        raise UsageError(f"there is no rule {code!r}", hint=Remedy("list-rules"))
    return [rule]
