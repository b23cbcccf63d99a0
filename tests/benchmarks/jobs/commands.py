"""Commands that a person waits for: start-up, and the log of a long history."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.harness import Command, Comparison, Scale, dataset, icectl, job, python

LIST_COMMITS = """
import sys, icechunk as ic
repo = ic.Repository.open(ic.local_filesystem_storage(sys.argv[1]))
for info in repo.ancestry(branch="main"):
    print(info.id, info.written_at.isoformat(), info.message)
"""


def completing(repository: Path) -> Command:
    variables = {
        "_ICECTL_COMPLETE": "complete_bash",
        "COMP_WORDS": f"icectl log -r {repository} ma",
        "COMP_CWORD": "4",
    }
    settings = (f"{name}={value}" for name, value in variables.items())
    return Command(("env", *settings, *icectl().arguments))


@job("icectl --help", target=0.5)
def show_help(scale: Scale) -> Comparison:
    return Comparison(python("import icechunk"), icectl("--help"), "import icechunk")


@job("completion of a ref", target=0.5)
def complete_ref(scale: Scale) -> Comparison:
    repository = dataset("linear_history", 10)
    return Comparison(python("import icechunk"), completing(repository), "import icechunk")


@job("log of 10 commits, start-up included", target=0.6)
def log_of_few_commits(scale: Scale) -> Comparison:
    repository = dataset("linear_history", 10)
    return Comparison(python("import icechunk"), icectl("log", "-r", repository), "import icechunk")


@job("inspect-file of a small file", target=0.6)
def inspect_small_file(scale: Scale) -> Comparison:
    repository = dataset("linear_history", 10)
    snapshot = max((repository / "snapshots").iterdir(), key=lambda path: path.stat().st_size)
    return Comparison(
        python("import icechunk"), icectl("inspect-file", snapshot), "import icechunk"
    )


@job("log of 2,000 commits", target=0.6)
def log_of_commits(scale: Scale) -> Comparison:
    repository = dataset("many_commits", scale.of(2_000))
    return Comparison(python(LIST_COMMITS, repository), icectl("log", "-r", repository))
