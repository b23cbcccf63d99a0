"""Types that several files share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MetadataItem:
    """A named value; `value` holds the encoded bytes exactly as the file has them.

    Spec version 1 encodes MessagePack, spec version 2 FlexBuffers; `format.values` decodes.
    Carrying the bytes means that rewriting a file cannot change a value.
    """

    name: str
    value: bytes


@dataclass(frozen=True, slots=True)
class UnknownField:
    """Something a newer writer put into a table that this icectl does not know.

    Its type is unknown, so it can be shown, but a file that has one cannot be rewritten
    without loss: encoders refuse.
    """

    table: str
    slot: int
    count: int
