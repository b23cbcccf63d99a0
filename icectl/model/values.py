"""Types that several kinds of files share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MetadataItem:
    """A named value with its encoded bytes as stored in the file.

    Spec version 1 uses MessagePack, spec version 2 FlexBuffers; `format.values` decodes both.
    Keeping the bytes ensures that rewriting a file does not change a value.
    """

    name: str
    value: bytes


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field of a table that this version of icectl does not know.

    Its type is unknown, so the field can be reported but not copied: encoders refuse to rewrite
    a file that has one.
    """

    table: str
    slot: int
    count: int


class Absent:
    """The value of a key that is not there; null is a value."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()
