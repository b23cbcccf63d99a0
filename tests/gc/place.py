"""A repository that the official package writes, and the command line at work on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from icectl.cli.main import run
from icectl.model.repo import RepoInfo
from icectl.repository.ops_log import read_repo
from icectl.storage.local import LocalStorage
from tests.gc.repositories import OBJECTS, files
from tests.official import ic, open_official
from tests.official.histories import commit, create


class Place:
    """A repository, what was committed, and the command line."""

    def __init__(self, where: Path, capsys: pytest.CaptureFixture[str], **config: Any) -> None:
        self.where = where
        self._capsys = capsys
        create(where, inline_chunk_threshold_bytes=0, **config)

    @classmethod
    def existing(cls, where: Path, capsys: pytest.CaptureFixture[str]) -> Place:
        place = cls.__new__(cls)
        place.where, place._capsys = where, capsys
        return place

    def commit(self, *numbers: int) -> str:
        repo = open_official(self.where)
        for number in numbers:
            with commit(repo, f"{number}") as root:
                root.attrs["number"] = number
                root.create_array(f"a{number}", shape=(4,), chunks=(2,), dtype="i8")[:] = 1
        return str(repo.lookup_branch("main"))

    def official(self) -> ic.Repository:
        return open_official(self.where)

    def info(self) -> RepoInfo:
        return read_repo(LocalStorage(self.where))

    def snapshot_files(self) -> set[str]:
        return {path.name for path in (self.where / "snapshots").iterdir()}

    def backups(self) -> list[str]:
        """The names, newest first."""
        return sorted(path.name for path in (self.where / "overwritten").iterdir())

    def run(self, *words: str) -> tuple[int, dict[str, Any]]:
        """The exit code, and the document or the error."""
        command = (*words, "-r", str(self.where), "--json")
        code = run(list(command), {})
        out, err = self._capsys.readouterr()
        return code, json.loads(out or err.splitlines()[-1])

    def check_refused(self, *words: str) -> dict[str, Any]:
        before = files(self.where, (*OBJECTS, "overwritten"))
        repo = (self.where / "repo").read_bytes()
        code, document = self.run(*words)
        assert (code, document["error"]["kind"]) == (13, "damaged"), document
        after = files(self.where, (*OBJECTS, "overwritten"))
        assert after == before
        assert (self.where / "repo").read_bytes() == repo
        error: dict[str, Any] = document["error"]
        return error

    def check_sound(self) -> None:
        code, document = self.run("validate", "--level", "chunks", "--fail-on", "warning")
        assert (code, document["findings"]) == (0, [])
