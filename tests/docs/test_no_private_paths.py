"""No file names a path of the machine that it was written on."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.docs.readme import PROJECT

PRIVATE = re.compile(r"(?<![\w.~$])/(root|home/\w+|Users/\w+|work)/\w")


def test_no_file_has_a_path_of_somebodys_machine() -> None:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this is not a clone")
    names = [name for name in done.stdout.decode().split("\0") if name]
    assert len(names) > 300
    found = []
    for name in names:
        path = PROJECT / name
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [f"{name}: {match[0]}" for match in PRIVATE.finditer(text)]
    assert found == []


def test_the_check_can_fail() -> None:
    assert PRIVATE.search("see /home/" + "somebody/icectl")
    assert not PRIVATE.search("~/wo" + "rk/x and $HOME/wo" + "rk/x, a/ro" + "ot/b")
