"""`python -m tests.docs.picture`: draw `.github/icectl.svg` from real terminal output.

The commands run on a pseudo terminal on the demo repository, and rich draws what they print.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.cli.terminals import Terminal
from tests.docs.demo_repository import REPOSITORY, environment, write_demo

PICTURE = Path(__file__).parents[2] / ".github" / "icectl.svg"
COMMANDS = (
    "icectl log --graph --all --oneline",
    "icectl diff main~6 main",
    "icectl gc --older-than 7d --yes",
)
COLUMNS = 88


def capture(home: Path) -> list[str]:
    """The lines on the terminal, with their colours as escape sequences."""
    environ = {**environment(home), "TERM": "xterm-256color", "ICECTL_REPO": REPOSITORY}
    environ["ICECTL_PAGER"] = "cat"
    lines: list[str] = []
    for command in COMMANDS:
        shell = ["bash", "-c", f"cd '{home}' && {command}"]
        with Terminal(shell, environ, columns=COLUMNS) as terminal:
            text, code = terminal.finish()
        assert code == 0, text
        lines += [f"\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m", *_settled(text), ""]
    return lines[:-1]


def _settled(text: str) -> Iterator[str]:
    """The final lines: of a progress bar that redraws itself, only the last state."""
    for line in text.rstrip("\n").split("\n"):
        last = re.sub(r"\x1b\[[0-9;?]*[A-HJKhl]", "", line).rsplit("\r", 1)[-1]
        if last or not line:
            yield last


def draw(lines: list[str]) -> str:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)
    svg = console.export_svg(title="icectl", unique_id="icectl")
    # rich asks for a font from the network; every reader has a monospaced one.
    return re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.S)


def picture() -> str:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        write_demo(home)
        return draw(capture(home))


def main() -> int:
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
