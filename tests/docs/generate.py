"""`python -m tests.docs.generate [ROOT]`: write `man/` and `completions/` of the project."""

from __future__ import annotations

import sys
from pathlib import Path

from typer.completion import get_completion_script  # type: ignore[attr-defined]

from icectl.cli.app import PROGRAM
from icectl.cli.main import COMPLETE_VARIABLE
from tests.docs.man_pages import render_man_pages

COMPLETIONS = {"bash": "icectl.bash", "zsh": "_icectl", "fish": "icectl.fish"}


def generate() -> dict[str, str]:
    """Path below the project's root -> content, for every generated file."""
    files = {f"man/{name}": text for name, text in render_man_pages().items()}
    for shell, name in COMPLETIONS.items():
        script = get_completion_script(
            prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, shell=shell
        )
        if shell == "zsh":
            # zsh loads the file at the first Tab and expects the candidates from that very call.
            script += '\n_icectl_completion "$@"'
        files[f"completions/{name}"] = script + "\n"
    return files


def write(root: Path) -> None:
    """Write every file, and remove pages that no longer exist."""
    files = generate()
    for path in (root / "man").glob("**/*.[1-9]"):
        if str(path.relative_to(root)) not in files:
            path.unlink()
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2])
