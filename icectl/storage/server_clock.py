"""The clock of a server, for libraries that do not show the Date header of a response.

One request without credentials brings the Date header, even with an error. The difference to a
clock of this machine that nobody sets is remembered for a while, for each server and process.
"""

from __future__ import annotations

import threading
import time
from urllib.parse import urlsplit

from icectl.storage.retry import CONNECT_TIMEOUT, RequestFailure, reason_of
from icectl.storage.times import microseconds_of_http_date

REMEMBERED_SECONDS = 600.0
# CLOCK_BOOTTIME continues while the machine is suspended.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_clocks: dict[str, ServerClock] = {}


def clock_of(url: str) -> ServerClock:
    """Return the clock of the server of this URL."""
    parts = urlsplit(url)
    return _clocks.setdefault(f"{parts.scheme}://{parts.netloc}", ServerClock(url))


def _steady_time() -> float:
    return time.clock_gettime(_STEADY)


class ServerClock:
    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._measured: tuple[float, int] | None = None

    @property
    def is_known(self) -> bool:
        measured = self._measured
        return measured is not None and _steady_time() - measured[0] < REMEMBERED_SECONDS

    def read(self) -> int:
        """Return the time in microseconds, at most a second and the latency too early."""
        if self._measured is None:
            raise RuntimeError("the clock was not measured")
        moment, date = self._measured
        return date + int((_steady_time() - moment) * 1_000_000)

    def measure(self) -> None:
        """Ask the server for its time; raise `RequestFailure` without an answer."""
        with self._lock:
            if not self.is_known:
                date = _read_date(self._url)
                self._measured = (_steady_time(), microseconds_of_http_date(date))


def _read_date(url: str) -> str:
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    try:
        with urlopen(Request(url, method="HEAD"), timeout=CONNECT_TIMEOUT) as answer:
            return str(answer.headers["Date"])
    except HTTPError as error:
        with error:
            return str(error.headers["Date"])
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise RequestFailure(
            None,
            "unreachable",
            reason_of(reason) if isinstance(reason, BaseException) else str(reason),
            unreachable=True,
        ) from None
