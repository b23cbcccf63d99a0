"""`python -m tests.docs.readme`: bring the output in README up to date.

Runs each `$ command` of the `console` blocks in order, beside the demo repository, and puts its
output below it. A test fails if README shows anything else. `--benchmarks` also updates the
tables of benchmarks from the file that `make bench` wrote.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.docs.demo_repository import environment, write_demo
from tests.patience import PATIENCE_SECONDS

PROJECT = Path(__file__).parents[2]
README = PROJECT / "README.md"
BENCHMARKS = PROJECT / "tests" / "benchmarks" / "README.md"
RESULTS = PROJECT / ".bench" / "results.json"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text: str, language: str) -> Iterator[str]:
    for match in BLOCK.finditer(text):
        if match[1] == language:
            yield match[2]


def commands(block: str) -> list[str]:
    """The command lines of a block; a backslash at the end continues a line."""
    joined = block.replace("\\\n", "")
    return [line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")]


class Shell:
    """Runs command lines one by one; `export` persists."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._environment = environment(home)

    def run(self, line: str) -> tuple[str, int]:
        exported = re.fullmatch(r"export (\w+)=(\S+)", line)
        if exported:
            self._environment[exported[1]] = exported[2]
            return "", 0
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self._home,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return done.stdout.replace(str(self._home), "~"), done.returncode


def reports_failure(output: str) -> bool:
    return any(text in output for text in ("icectl: error: ", '{"error":', "Problems found: "))


def with_output(text: str) -> str:
    """The text with the present output in every `console` block."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory).resolve()
        write_demo(home)
        shell = Shell(home)

        def rerun(match: re.Match[str]) -> str:
            if match[1] != "console":
                return match[0]
            shown = ""
            for line in commands(match[2]):
                output, code = shell.run(line)
                if (code == 0) == reports_failure(output):
                    raise RuntimeError(f"{line}: exit code {code}\n{output}")
                shown += f"$ {line}\n{output}"
            return f"```console\n{shown}```"

        return BLOCK.sub(rerun, text)


def benchmark_side(side: Mapping[str, Any]) -> str:
    words = [f"{side['megabytes']:.0f} MB"]
    if side["seconds"] is not None:
        words.insert(0, f"{side['seconds']:.2f} s")
    if side.get("requests") is not None:
        words.append(f"{side['requests']} requests in {side['rounds']} rounds")
    return ", ".join(words)


def benchmark_rows(document: Mapping[str, Any]) -> dict[str, str]:
    """A table row for each job that `make bench` measured."""
    rows = {}
    for result in document["results"]:
        if "error" in result:
            continue
        sides = [benchmark_side(result[name]) for name in ("theirs", "ours")]
        ratios = [
            "" if value is None else f"{value:.2f}"
            for value in (result["time_ratio"], result["memory_ratio"])
        ]
        cells = [result["job"], result["baseline"], *sides, *ratios]
        rows[result["job"]] = f"| {' | '.join(cells)} |"
    return rows


def with_benchmarks(text: str, document: Mapping[str, Any]) -> str:
    """The text with new rows for the jobs that its table lists."""
    rows = benchmark_rows(document)
    return re.sub(r"^\| (.+?) \|.*$", lambda m: rows.get(m[1], m[0]), text, flags=re.MULTILINE)


def with_all_benchmarks(text: str, document: Mapping[str, Any]) -> str:
    """The text with every job between the marks."""
    lines = [
        "| job | beside | theirs | ours | time | memory |",
        "|---|---|--:|--:|--:|--:|",
        *benchmark_rows(document).values(),
        "",
        f"Scale {document['scale']}, medians of {document['rounds']} rounds (one if it takes "
        f"minutes), Python {document['python']}. Ratios are ours to theirs.",
    ]
    head, begin, rest = text.partition("<!-- benchmarks: begin -->\n")
    _, end, tail = rest.partition("<!-- benchmarks: end -->\n")
    assert begin and end
    return head + begin + "".join(f"{line}\n" for line in lines) + end + tail


def main() -> int:
    text = with_output(README.read_text(encoding="utf-8"))
    if "--benchmarks" in sys.argv[1:]:
        document = json.loads(RESULTS.read_text())
        text = with_benchmarks(text, document)
        page = with_all_benchmarks(BENCHMARKS.read_text(encoding="utf-8"), document)
        BENCHMARKS.write_text(page, encoding="utf-8")
    README.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
