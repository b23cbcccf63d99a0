"""What a person sees on terminals of 60, 80 and 120 columns, compared whole.

`ICECTL_UPDATE_GOLDEN=1 pytest tests/cli/test_screens.py` writes the files again: read the diff.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cli.small_repository import NOW, write_small_repository
from tests.cli.terminals import Terminal

SCREENS = Path(__file__).parent / "screens"
CALLS = [
    "log",
    "log --oneline --all --graph",
    "show",
    "ls",
    "ls --tree",
    "branch list",
    "tag list",
    "ops-log",
    "diff main~2 main",
    "expire --keep-last 1 --dry-run",
    "expire --help",
    "--help",
]
WIDTHS = (60, 80, 120)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_repository(tmp_path_factory.mktemp("small") / "repository")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("call", CALLS)
def test_screen(environ: dict[str, str], repository: Path, call: str, width: int) -> None:
    command = [sys.executable, "-m", "icectl.cli.main", *call.split()]
    variables = {
        **environ,
        "TERM": "xterm",
        "NO_COLOR": "1",
        "PAGER": "cat",
        "ICECTL_NOW": NOW,
        "ICECTL_REPO": str(repository),
    }
    with Terminal(command, variables, columns=width) as terminal:
        text, code = terminal.finish()
    assert code == 0
    lines = [line.rstrip() for line in text.replace(str(repository), "REPOSITORY").splitlines()]
    assert max(map(len, lines)) <= width
    golden = SCREENS / f"{call.replace(' ', '_').replace('--', '')}-{width}.txt"
    shown = "\n".join(lines) + "\n"
    if os.environ.get("ICECTL_UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")
