"""Files as the alpha releases wrote them: MessagePack with structs as arrays or maps."""

from __future__ import annotations

import msgpack


def pack(value: object) -> bytes:
    """MessagePack with maps whose keys are lists: given as a list of pairs in `Map`."""
    packer = msgpack.Packer(autoreset=False)

    def add(item: object) -> None:
        if isinstance(item, dict | Map):
            pairs = list(item.items()) if isinstance(item, dict) else item.pairs
            packer.pack_map_header(len(pairs))
            for name, content in pairs:
                add(name)
                add(content)
        elif isinstance(item, list):
            packer.pack_array_header(len(item))
            for content in item:
                add(content)
        else:
            packer.pack(item)

    add(value)
    return bytes(packer.bytes())


class Map:
    def __init__(self, *pairs: tuple[object, object]) -> None:
        self.pairs = pairs
