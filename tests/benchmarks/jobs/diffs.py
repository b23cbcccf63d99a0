"""1,000,000 references on each side, 1,000 of them changed.

The official diff reads the transaction logs alone and knows only that chunks were written; ours
reads manifests as well, if they are small, to tell added, overwritten and deleted ones apart.
`--name-only` is the diff that does the same work. The official package has no diff by content; its
diff from an ancestor, which reads no manifest, is the baseline, and ours must stay under 1 GiB.
"""

from __future__ import annotations

from tests.benchmarks.harness import Comparison, Fixed, Scale, dataset, icectl, job, python

REFERENCES, CHANGED = 1_000_000, 1_000
OFFICIAL = """
import sys, icechunk as ic
repo = ic.Repository.open(ic.local_filesystem_storage(sys.argv[1]))
diff = repo.diff(from_tag="before", to_branch="main")
print({path: len(list(chunks)) for path, chunks in diff.updated_chunks.items()})
"""


def register(kind: str) -> None:
    def repository(scale: Scale) -> object:
        return dataset(f"changed_{kind}_refs", scale.of(REFERENCES), scale.of(CHANGED))

    @job(f"diff {kind} refs, names by logs", target=0.8)
    def names_by_logs(scale: Scale) -> Comparison:
        where = repository(scale)
        return Comparison(
            python(OFFICIAL, where), icectl("diff", "before", "main", "--name-only", "-r", where)
        )

    @job(f"diff {kind} refs, by logs", target=0.8)
    def by_logs(scale: Scale) -> Comparison:
        where = repository(scale)
        return Comparison(python(OFFICIAL, where), icectl("diff", "before", "main", "-r", where))

    @job(f"diff {kind} refs, by content")
    def by_content(scale: Scale) -> Comparison:
        where = repository(scale)
        return Comparison(
            python(OFFICIAL, where),
            icectl("diff", "side", "main", "-r", where),
            note="theirs is the diff from an ancestor by logs: it has none by content",
        )

    @job(f"diff {kind} refs, memory", memory_target=1)
    def memory(scale: Scale) -> Comparison:
        where = repository(scale)
        return Comparison(Fixed(1024), icectl("diff", "side", "main", "-r", where), "1 GiB")


register("native")
register("virtual")
