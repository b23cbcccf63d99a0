"""Fixtures for every test: servers on loopback, and the repositories official releases wrote."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A loaded machine generates slowly; that says nothing about the code under test.
settings.register_profile(
    "icectl", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("icectl")

# The size and kind of the terminal that the tests were started from must not matter, and neither
# must a developer's own accounts.
os.environ["TERM"] = "xterm-256color"
for _name in list(os.environ):
    if _name in ("COLUMNS", "LINES") or _name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
        del os.environ[_name]

# A shell starts background jobs with SIGINT ignored, and their children inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.command_line", "tests.servers.fixtures", "tests.engines.fixtures"]


@pytest.fixture(scope="session")
def shared_fixtures() -> Path:
    """Repositories that official releases wrote; read-only."""
    directory = Path(__file__).parents[2] / "shared" / "fixtures"
    if not directory.is_dir():
        pytest.skip("the repositories of official releases are not beside the project")
    return directory
