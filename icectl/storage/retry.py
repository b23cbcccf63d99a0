"""The retry policy for requests.

Throttling, server errors and lost connections are retried with jittered exponential backoff.
Refusals (no permission, not found, condition not met) are not retried.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable
from typing import TypeVar

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

ATTEMPTS = 8
FIRST_DELAY = 0.2
LONGEST_DELAY = 8.0
# If no connection is possible, the address is usually wrong: report it soon.
CONNECT_TIMEOUT = 5.0
UNREACHABLE_BUDGET = 5.0
READ_TIMEOUT = 30.0

RETRYABLE_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
THROTTLING_CODES = frozenset(
    {"RequestLimitExceeded", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests"}
)
RETRYABLE_CODES = THROTTLING_CODES | {"InternalError", "RequestTimeout", "ServiceUnavailable"}


class RequestFailure(Exception):  # noqa: N818 -- it never leaves the storage layer
    """A failed request. `status` is None if there was no response."""

    def __init__(
        self,
        status: int | None,
        code: str,
        message: str = "",
        *,
        unreachable: bool = False,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.unreachable = unreachable
        """No connection was made, so the request cannot have arrived."""
        self.retryable = (
            status is None or status in RETRYABLE_STATUSES or code in RETRYABLE_CODES
            if retryable is None
            else retryable
        )

    @property
    def is_throttling(self) -> bool:
        return self.status in (429, 503) or self.code in THROTTLING_CODES


def with_retries(attempt: Callable[[], Result]) -> Result:
    """Return the result of the first successful attempt; raise the last `RequestFailure`."""
    began = time.monotonic()
    tries = 1
    while True:
        try:
            return attempt()
        except RequestFailure as failure:
            delay = random.uniform(0, delay_bound(tries))
            elapsed = time.monotonic() - began
            too_long = failure.unreachable and elapsed + delay > UNREACHABLE_BUDGET
            if tries == ATTEMPTS or too_long or not failure.retryable:
                raise
            reason = failure.code if failure.status is None else f"{failure.status} {failure.code}"
            logger.info("attempt %d failed (%s), next in %.1f s", tries, reason, delay)
        time.sleep(delay)
        tries += 1


def delay_bound(tries: int) -> float:
    """Return the longest wait after this many tries."""
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (tries - 1))


def reason_of(error: BaseException) -> str:
    """Describe an exception without the address that some libraries include."""
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number).lower()
    return str(getattr(error, "strerror", None) or error).lower() or type(error).__name__
