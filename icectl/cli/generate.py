"""`python -m icectl.cli.generate [ROOT]`: write `man/` and `completions/` of the project."""

from __future__ import annotations

import sys
from pathlib import Path

from icectl.cli.catalogue import read_catalogue
from icectl.cli.completions.bash import render_bash
from icectl.cli.completions.fish import render_fish
from icectl.cli.completions.zsh import render_zsh
from icectl.cli.man_pages import render_man_pages


def generate() -> dict[str, str]:
    """Path below the project's root -> content, for every generated file."""
    entries = read_catalogue()
    files = {f"man/{name}": text for name, text in render_man_pages(entries).items()}
    files["completions/icectl.bash"] = render_bash(entries)
    files["completions/_icectl"] = render_zsh(entries)
    files["completions/icectl.fish"] = render_fish(entries)
    return files


def write(root: Path) -> None:
    """Write every file, and remove pages of commands that are no more."""
    files = generate()
    for path in (root / "man").glob("*.1"):
        if f"man/{path.name}" not in files:
            path.unlink()
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2])
