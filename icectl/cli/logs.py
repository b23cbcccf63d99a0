"""Show log records on stderr for `-v` and `-vv`: those of icectl, never of its libraries."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from icectl.cli.terminal import is_terminal
from icectl.model.redaction import hide_secrets
from icectl.render.text import escape_controls

CLEAR_LINE = "\r\x1b[K"


@contextmanager
def shown_logs(verbosity: int, environ: Mapping[str, str]) -> Iterator[None]:
    """Show notes with verbosity 1, and every request with its duration from 2."""
    if verbosity <= 0:
        yield
        return
    # The line may contain a progress bar.
    start = CLEAR_LINE if is_terminal(sys.stderr, environ) else ""

    class Formatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            time = f"{record.relativeCreated / 1000:.3f} s: " if verbosity > 1 else ""
            return f"{start}icectl: {time}{escape_controls(hide_secrets(record.getMessage()))}"

    logger = logging.getLogger("icectl")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter())
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbosity > 1 else logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = True
