"""`python -m tests.docs.readme`: bring the output in README up to date.

Each `$ command` of a `console` block is run, in their order, beside the demo repository, and
what it prints is put below it. A test fails when README says anything else. With
`--benchmarks` the table of benchmarks is filled from the file that `make bench` wrote.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from icectl.cli.exit_codes import EXIT_CODES
from icectl.cli.man_pages import ENVIRONMENT
from icectl.ops.tables.names import TABLES
from icectl.ops.tables.schemas import SCHEMAS
from tests.docs.demo_repository import environment, write_demo

PROJECT = Path(__file__).parents[2]
README = PROJECT / "README.md"
RESULTS = PROJECT / ".bench" / "results.json"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text: str, language: str) -> Iterator[str]:
    for match in BLOCK.finditer(text):
        if match[1] == language:
            yield match[2]


def commands(block: str) -> list[str]:
    """The command lines of a block; one that ends in a backslash goes on in the next."""
    joined = block.replace("\\\n", "")
    return [line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")]


class Shell:
    """Runs command lines one by one; `export` lasts."""

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
            timeout=120,
            check=False,
        )
        return done.stdout.replace(str(self._home), "~"), done.returncode


def told_failure(output: str) -> bool:
    return any(text in output for text in ("icectl: error: ", '{"error":', "Not sound: "))


def with_output(text: str) -> str:
    """The text with every `console` block as it comes out now."""
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
                if (code == 0) == told_failure(output):
                    raise RuntimeError(f"{line}: exit code {code}\n{output}")
                shown += f"$ {line}\n{output}"
            return f"```console\n{shown}```"

        return BLOCK.sub(rerun, text)


def with_section(text: str, name: str, lines: Iterable[str]) -> str:
    """The text with other lines between the marks `NAME: begin` and `NAME: end`."""
    begin, end = (re.escape(f"<!-- {name}: {mark} -->\n") for mark in ("begin", "end"))
    content = "".join(f"{line}\n" for line in lines)
    found, count = re.subn(
        f"({begin}).*?({end})", lambda m: m[1] + content + m[2], text, flags=re.DOTALL
    )
    assert count == 1, name
    return found


def with_reference(text: str) -> str:
    """The tables that the code knows best."""
    codes = [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES]
    variables = [
        f"| {', '.join(f'`{name}`' for name in names.split(', '))} | {meaning} |"
        for names, meaning in ENVIRONMENT
    ]
    tables = [
        f"| `{name}` | {TABLES[name]} | {', '.join(f'`{column}`' for column in schema.names)} |"
        for name, schema in SCHEMAS.items()
    ]
    text = with_section(text, "exit codes", ["| code | meaning |", "|--:|---|", *codes])
    text = with_section(text, "environment", ["| variable | meaning |", "|---|---|", *variables])
    return with_section(text, "tables", ["| table | what | columns |", "|---|---|---|", *tables])


def with_benchmarks(text: str, document: Mapping[str, Any]) -> str:
    lines = ["| job | beside | theirs | ours | time | memory |", "|---|---|--:|--:|--:|--:|"]
    for result in document["results"]:
        if "error" in result:
            continue
        sides = [
            " ".join(
                ([f"{side['seconds']:.2f} s,"] if side["seconds"] is not None else [])
                + [f"{side['megabytes']:.0f} MB"]
            )
            for side in (result["theirs"], result["ours"])
        ]
        ratios = [
            "" if value is None else f"{value:.2f}"
            for value in (result["time_ratio"], result["memory_ratio"])
        ]
        lines.append(f"| {' | '.join([result['job'], result['baseline'], *sides, *ratios])} |")
    lines += [
        "",
        f"Scale {document['scale']}, medians of {document['rounds']} rounds (one, where it takes minutes), "
        f"Python {document['python']}. Ratios are ours to theirs: below 1 icectl needs less.",
    ]
    return with_section(text, "benchmarks", lines)


def main() -> int:
    text = README.read_text(encoding="utf-8")
    text = with_reference(with_output(text))
    if "--benchmarks" in sys.argv[1:]:
        text = with_benchmarks(text, json.loads(RESULTS.read_text()))
    README.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
