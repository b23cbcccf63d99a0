"""Tables from what an engine gathered: by array, by ref, by version, and what could go."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from icectl.ops.stats.engine import BITS, mask_names, mask_words
from icectl.ops.stats.gathering import Column, Columns, Gathered
from icectl.ops.stats.gathering import sum_groups as _grouped
from icectl.ops.stats.result import ArrayStats, FreedStats, RefStats, SnapshotStats
from icectl.ops.stats.usage import Usage


class Totals:
    def __init__(self, usage: Usage, gathered: Gathered, num_masks: int) -> None:
        self._usage = usage
        self._native, self._virtual = gathered.native, gathered.virtual
        self._inline, self._inline_of = gathered.inline, gathered.inline_of
        self._bytes_of = gathered.bytes_of
        self._words = mask_names(num_masks)

    def bytes(self) -> tuple[int, int, int]:
        return (
            _total(self._native["length"]),
            _total(self._virtual["length"]),
            int(self._inline[:, 1].sum()),
        )

    def num_chunks(self) -> int:
        rows = sum(int(_counts(part).sum()) for part in (self._native, self._virtual))
        return rows + int(self._inline[:, 0].sum())

    def arrays(self) -> tuple[ArrayStats, ...]:
        size = len(self._inline)
        native, virtual = self._native, self._virtual
        native_bytes = _grouped(native["array"], native["length"], size)
        virtual_bytes = _grouped(virtual["array"], virtual["length"], size)
        counts = self._inline[:, 0].copy()
        for part in (native, virtual):
            np.add.at(counts, part["array"].astype(np.intp), _counts(part))
        columns = (native_bytes, virtual_bytes, self._inline[:, 1].tolist(), counts.tolist())
        rows = zip([*self._usage.array_paths, ""], *columns, strict=True)
        # What no version names any more is a row only when there is something in it.
        return tuple(ArrayStats(*row) for row in rows if row[0] or row[-1])

    def refs(self, kind: str) -> tuple[RefStats, ...]:
        masks = self._masks()
        return tuple(
            RefStats(name, *self._ref(masks, bit))
            for bit, (of, name) in enumerate(self._usage.refs)
            if of == kind
        )

    def _masks(self) -> list[tuple[NDArray[np.uint64], Column, Column]]:
        """Of native chunks, of virtual ones and of manifests' inline ones: mask, bytes, count."""
        found = []
        for part in (self._native, self._virtual):
            mask = np.array([part[name] for name in self._words], np.uint64)
            found.append((mask, part["length"], _counts(part)))
        uses = self._usage.manifests.values()
        words = [mask_words(use.mask, len(self._words)) for use in uses]
        inline = np.array(words, np.uint64).reshape(len(self._inline_of), len(self._words)).T
        return [*found, (inline, self._inline_of[:, 1], self._inline_of[:, 0])]

    def _ref(
        self, masks: list[tuple[NDArray[np.uint64], Column, Column]], bit: int
    ) -> tuple[int, int, int]:
        """Bytes, own bytes and chunks behind one bit; the bit behind the refs does not count."""
        word, value = bit // BITS, np.uint64(1 << bit % BITS)
        own = np.zeros((len(self._words), 1), np.uint64)
        own[word] = value
        all_refs = (1 << len(self._usage.refs)) - 1
        of_refs = np.array([mask_words(all_refs, len(self._words))], np.uint64).T
        total = alone = count = 0
        for mask, lengths, counts in masks:
            reached = (mask[word] & value) != 0
            total += _total(lengths[reached])
            count += int(counts[reached].sum())
            alone += _total(lengths[((mask & of_refs) == own).all(axis=0)])
        return total, alone, count

    def snapshots(self) -> tuple[SnapshotStats, ...]:
        """Newest first."""
        size = len(self._usage.snapshots)
        own, new = np.zeros(size, np.int64), np.zeros(size, np.int64)
        uses = self._usage.manifests.values()
        inline = {
            "first": np.array([use.first for use in uses], np.intp),
            "last": np.array([use.last for use in uses], np.intp),
            "length": self._inline_of[:, 1],
        }
        for part in (self._native, self._virtual, inline):
            alone = part["first"] == part["last"]
            own += np.array(_grouped(part["first"][alone], part["length"][alone], size))
            new += np.array(_grouped(part["first"], part["length"], size))
        found = []
        for place, info in enumerate(self._usage.snapshots):
            total = int(self._bytes_of[self._usage.manifests_of[place]].sum())
            mine = int(own[place])
            found.append(
                SnapshotStats(
                    info.id,
                    info.flushed_at,
                    info.message,
                    total,
                    mine,
                    total - mine,
                    int(new[place]),
                )
            )
        return tuple(reversed(found))

    def freed(self, num_snapshots: int) -> FreedStats:
        """What lacks the bit behind those of the refs: no version that stays needs it."""
        bit = len(self._usage.refs)
        word, value = bit // BITS, np.uint64(1 << bit % BITS)
        native = self._native
        gone = (native[f"mask_{word}"] & value) == 0
        manifests = [
            use.size_bytes for use in self._usage.manifests.values() if not use.mask >> bit & 1
        ]
        return FreedStats(
            num_snapshots,
            len(manifests),
            int(_counts(native)[gone].sum()),
            _total(native["length"][gone]) + sum(manifests),
        )


def _counts(part: Columns) -> Column:
    """How many chunk objects each row is."""
    counts = part.get("count")
    return np.ones(len(part["length"]), np.int64) if counts is None else counts


def _total(lengths: Column) -> int:
    return int(lengths.sum(dtype=np.uint64)) if len(lengths) else 0
