"""Object ids as types, and their exact Crockford base32 text.

The text form is the file name: upper case, no padding, zero bits appended on the right. A
text whose appended bits are not zero is rejected, so each id has exactly one text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import ClassVar, Self, TypeVar

Id = TypeVar("Id", bound="ObjectId")

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES = {character: value for value, character in enumerate(ALPHABET)}
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]


def encode_base32(data: bytes) -> str:
    """Return the Crockford base32 text, with zero bits appended on the right."""
    bits = len(data) * 8
    width = -(-bits // 10) * 10
    number = int.from_bytes(data, "big") << (width - bits)
    pairs = [_PAIRS[number >> shift & 1023] for shift in range(width - 10, -1, -10)]
    return "".join(pairs)[: -(-bits // 5)]


def decode_base32(text: str) -> bytes:
    """Return the bytes of an exact Crockford base32 text; raise `ValueError` for any other."""
    number = 0
    for character in text:
        value = _VALUES.get(character)
        if value is None:
            raise ValueError(f"{character!r} is not a Crockford base32 character")
        number = number << 5 | value
    size, spare = divmod(len(text) * 5, 8)
    if spare > 4 or number & ((1 << spare) - 1):
        raise ValueError(f"{text!r} is not the base32 text of a whole number of bytes")
    return (number >> spare).to_bytes(size, "big")


def find_by_prefix(ids: Iterable[Id], prefix: str) -> list[Id]:
    """The ids whose texts begin with the prefix, which is in upper case."""
    if not set(prefix) <= _VALUES.keys():
        return []
    # Whole bytes are compared first: of very many ids, few need their text.
    number = 0
    for character in prefix:
        number = number << 5 | _VALUES[character]
    size, spare = divmod(len(prefix) * 5, 8)
    head = (number >> spare).to_bytes(size, "big")
    return [id_ for id_ in ids if id_.startswith(head) and str(id_).startswith(prefix)]


class ObjectId(bytes):
    """The bytes of an id. Legacy generations use other sizes than the specification."""

    __slots__ = ()
    sizes: ClassVar[tuple[int, ...]] = (12, 16)

    def __new__(cls, data: bytes) -> Self:
        if len(data) not in cls.sizes:
            raise ValueError(f"{cls.__name__} of {len(data)} bytes")
        return super().__new__(cls, data)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the id with this text; raise `ValueError` if it is not valid."""
        return cls(decode_base32(text))

    @classmethod
    def generate(cls) -> Self:
        return cls(os.urandom(cls.sizes[0]))

    def __str__(self) -> str:
        return encode_base32(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({encode_base32(self)})"


class SnapshotId(ObjectId):
    __slots__ = ()


class ManifestId(ObjectId):
    __slots__ = ()


class ChunkId(ObjectId):
    __slots__ = ()


class NodeId(ObjectId):
    """Stable for the lifetime of a node, across snapshots and moves."""

    __slots__ = ()
    sizes: ClassVar[tuple[int, ...]] = (8, 4)


INITIAL_SNAPSHOT_ID = SnapshotId(bytes.fromhex("0b1cc8d6787580f0e33a6534"))
"""The well-known first snapshot of a repository of spec version 2: 1CECHNKREP0F1RSTCMT0."""
