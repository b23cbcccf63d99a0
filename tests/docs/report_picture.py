"""`python -m tests.docs.report_picture`: `.github/report.png`, the report of the demo in a browser."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.demo_repository import REPOSITORY, environment, write_demo
from tests.report.browser import started_browser

PICTURE = Path(__file__).parents[2] / ".github" / "report.png"
COMMAND = f"icectl report -r {REPOSITORY} --html report.html --older-than 2026-02-16"
"""Ages are relative to the clock of the disk."""
WIDTH = 1240
BOTTOM = "return Math.round(document.querySelector('#growth').getBoundingClientRect().bottom) + 18"


def main() -> int:
    with tempfile.TemporaryDirectory() as directory, started_browser() as browser:
        home = Path(directory)
        write_demo(home)
        subprocess.run(COMMAND.split(), cwd=home, env=environment(home), check=True)
        browser.resize(WIDTH, 900)
        browser.open(home / "report.html")
        browser.resize(WIDTH, browser.run(BOTTOM))
        # The picture is for readers of README, who need not know the directory.
        browser.run("document.querySelector('#location').textContent = arguments[0]", REPOSITORY)
        PICTURE.write_bytes(browser.picture())
    return 0


if __name__ == "__main__":
    sys.exit(main())
