"""The exit codes and their meaning, for `--help`, the man pages and the tests."""

from __future__ import annotations

DONE = 0
USAGE = 2
FINDINGS = 3
BUG = 70
INTERRUPTED = 130
BROKEN_PIPE = 141

EXIT_CODES: tuple[tuple[int, str], ...] = (
    (DONE, "done"),
    (1, "failed"),
    (USAGE, "usage error"),
    (FINDINGS, "findings (validate), a difference (diff --exit-code), or partly done"),
    (10, "repository not found"),
    (11, "conflict, retries used up"),
    (12, "no such ref or snapshot"),
    (13, "unreadable or damaged file"),
    (14, "storage failed"),
    (15, "unsupported version or feature"),
    (16, "refused (status, guard, confirmation)"),
    (BUG, "a bug in icectl"),
    (INTERRUPTED, "interrupted"),
    (BROKEN_PIPE, "the reader of the output closed the pipe"),
)
