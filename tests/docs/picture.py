"""`python -m tests.docs.picture`: draw `.github/icectl.svg` from what a terminal really shows.

The commands run on a pseudo terminal on the demo repository. The picture is plain SVG without
fonts or scripts from elsewhere, so that it looks the same wherever README is read.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

from tests.cli.terminals import Terminal
from tests.docs.demo_repository import REPOSITORY, environment, write_demo

PICTURE = Path(__file__).parents[2] / ".github" / "icectl.svg"
COMMANDS = (
    "icectl log --graph --all --oneline",
    "icectl diff main~6 main",
    "icectl gc --older-than 7d --yes",
)
COLUMNS = 88
CHARACTER, LINE = 8.4, 19
MARGIN, TITLE = 18, 42
COLOURS = {
    "31": "#ff7b72",
    "32": "#7ee787",
    "33": "#e3b341",
    "34": "#79c0ff",
    "35": "#d2a8ff",
    "36": "#76e3ea",
}
SEQUENCE = re.compile(r"\x1b\[([0-9;]*)m")


def capture(home: Path) -> list[str]:
    """What the terminal shows, line by line, with its colours as escape sequences."""
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
    """Lines as they stay: a bar that redraws itself leaves only what it drew last."""
    for line in text.rstrip("\n").split("\n"):
        last = re.sub(r"\x1b\[[0-9;?]*[A-HJKhl]", "", line).rsplit("\r", 1)[-1]
        if last or not line:
            yield last


def draw(lines: list[str]) -> str:
    width = round(COLUMNS * CHARACTER + 2 * MARGIN)
    height = TITLE + len(lines) * LINE + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="icectl in a terminal">\n'
        '<rect width="100%" height="100%" rx="9" fill="#0d1117"/>\n'
        '<circle cx="22" cy="20" r="6" fill="#ff5f57"/><circle cx="42" cy="20" r="6" '
        'fill="#febc2e"/><circle cx="62" cy="20" r="6" fill="#28c840"/>\n'
        "<g font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace\""
        ' font-size="14" fill="#e6edf3" xml:space="preserve">\n'
    )
    return head + "".join(_text(line, row) for row, line in enumerate(lines)) + "</g>\n</svg>\n"


def _text(line: str, row: int) -> str:
    """One line; each piece has its own place, so that the columns of any font stay aligned."""
    drawn, column, style = "", 0, ""
    baseline = TITLE + row * LINE + 13
    for index, piece in enumerate(SEQUENCE.split(line)):
        if index % 2:
            style = _style(piece)
        else:
            # Cut at wide gaps as well: not every viewer keeps runs of spaces.
            for word in re.finditer(r"\S+(?: \S+)*", piece):
                place = MARGIN + (column + word.start()) * CHARACTER
                length = len(word[0]) * CHARACTER
                drawn += (
                    f'<text x="{place:.1f}" y="{baseline}" textLength="{length:.1f}"{style}>'
                    f"{escape(word[0])}</text>\n"
                )
            column += len(piece)
    return drawn


def _style(codes: str) -> str:
    attributes = ""
    for code in codes.split(";"):
        if code == "1":
            attributes += ' font-weight="bold"'
        elif code == "2":
            attributes += ' opacity="0.6"'
        elif code in COLOURS:
            attributes += f' fill="{COLOURS[code]}"'
    return attributes


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
