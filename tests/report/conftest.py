"""The demo as a page, written once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.demo_repository import REPOSITORY, write_demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("report-demo")
    write_demo(home)
    return home / REPOSITORY
