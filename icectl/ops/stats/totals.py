"""The tables of `stats`, from rows and notes: by array, by ref, by version, and what could go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from icectl.model.redaction import redact_location
from icectl.ops.stats.result import (
    ArrayStats,
    ContainerStats,
    FreedStats,
    RefStats,
    SnapshotStats,
)
from icectl.ops.stats.summing import (
    BITS,
    FILES,
    NATIVE,
    VIRTUAL,
    ManifestNote,
    mask_names,
    mask_words,
)
from icectl.ops.stats.usage import Usage
from icectl.pipeline.engine import Columns

Values = NDArray[np.int64]


class Totals:
    """Rows are chunk objects, or groups of them, which have a `count` and the sum of `length`."""

    def __init__(
        self,
        usage: Usage,
        notes: Iterable[ManifestNote],
        tables: Mapping[str, Columns],
        num_masks: int,
    ) -> None:
        self._usage = usage
        self._native, self._virtual = tables[NATIVE], tables[VIRTUAL]
        self._files = tables[FILES]
        self._words = mask_names(num_masks)
        num_manifests = len(usage.manifests)
        # Number and bytes of inline chunks, by array and by manifest. The last row of the former
        # is for arrays that no version has.
        self._inline = np.zeros((usage.num_arrays + 1, 2), np.int64)
        self._inline_of = np.zeros((num_manifests, 2), np.int64)
        self._bytes_of = np.zeros(num_manifests, np.int64)
        self._containers: dict[int, tuple[str, bool]] = {}
        for note in notes:
            self._bytes_of[note.number] = note.bytes
            self._containers |= note.containers
            for place, count, size in note.inline:
                self._inline[place] += (count, size)
                self._inline_of[note.number] += (count, size)

    def bytes(self) -> tuple[int, int, int]:
        return (
            _total(self._native["length"]),
            _total(self._virtual["length"]),
            int(self._inline[:, 1].sum()),
        )

    def num_chunks(self) -> int:
        rows = sum(int(_counts(part).sum()) for part in (self._native, self._virtual))
        return rows + int(self._inline[:, 0].sum())

    def containers(self) -> tuple[ContainerStats, ...]:
        keys = np.sort(np.array([*self._containers], np.uint64))
        virtual = np.searchsorted(keys, self._virtual["container"])
        files = np.searchsorted(keys, self._files["container"])
        columns = (
            _sum_groups(virtual, self._virtual["length"], len(keys)),
            _sum_groups(virtual, _counts(self._virtual), len(keys)),
            _sum_groups(files, _counts(self._files, "container"), len(keys)),
        )
        sums = dict(zip(keys.tolist(), zip(*columns, strict=True), strict=True))
        return tuple(
            ContainerStats(redact_location(prefix), is_configured, *sums[key])
            for key, (prefix, is_configured) in sorted(
                self._containers.items(), key=lambda item: item[1]
            )
        )

    def arrays(self) -> tuple[ArrayStats, ...]:
        size = len(self._inline)
        native, virtual = self._native, self._virtual
        native_bytes = _sum_groups(native["array"], native["length"], size)
        virtual_bytes = _sum_groups(virtual["array"], virtual["length"], size)
        counts = self._inline[:, 0].copy()
        for part in (native, virtual):
            np.add.at(counts, part["array"].astype(np.intp), _counts(part))
        columns = (native_bytes, virtual_bytes, self._inline[:, 1].tolist(), counts.tolist())
        rows = zip([*self._usage.array_paths, ""], *columns, strict=True)
        # Arrays that no version has are a row only if they have chunks.
        return tuple(ArrayStats(*row) for row in rows if row[0] or row[-1])

    def refs(self, kind: str) -> tuple[RefStats, ...]:
        masks = self._masks()
        return tuple(
            RefStats(name, *self._ref(masks, bit))
            for bit, (of, name) in enumerate(self._usage.refs)
            if of == kind
        )

    def _masks(self) -> list[tuple[NDArray[np.uint64], Values, Values]]:
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
        self, masks: list[tuple[NDArray[np.uint64], Values, Values]], bit: int
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
            own += np.array(_sum_groups(part["first"][alone], part["length"][alone], size))
            new += np.array(_sum_groups(part["first"], part["length"], size))
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


def _counts(part: Columns, column: str = "length") -> Values:
    """The number of chunk objects in each row."""
    counts = part.get("count")
    return np.ones(len(part[column]), np.int64) if counts is None else counts


def _total(lengths: Values) -> int:
    return int(lengths.sum(dtype=np.uint64)) if len(lengths) else 0


def _sum_groups(groups: Values, lengths: Values, size: int) -> list[int]:
    """Exact sums; floating point would round beyond 2^53."""
    sums = np.zeros(size, np.uint64)
    np.add.at(sums, groups.astype(np.intp), lengths.astype(np.uint64))
    return sums.tolist()
