"""The clock of a server, for libraries that do not show the Date header of a response.

One request without credentials brings the Date header, even with an error. The difference to a
clock of this machine that nobody sets is remembered for a while, for each server and process.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from http.client import HTTPException
from urllib.parse import urlsplit

from icectl.storage.retry import CONNECT_TIMEOUT, RequestFailure, reason_of
from icectl.storage.times import microseconds_of_http_date

REMEMBERED_SECONDS = 600.0
MOST_BODY = 4096
# CLOCK_BOOTTIME continues while the machine is suspended.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_clocks: dict[str, ServerClock] = {}


def clock_of(url: str) -> ServerClock:
    """Return the clock of the server of this URL."""
    parts = urlsplit(url)
    return _clocks.setdefault(f"{parts.scheme}://{parts.netloc}", ServerClock())


def _steady_time() -> float:
    return time.clock_gettime(_STEADY)


class ServerClock:
    def __init__(self) -> None:
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

    def measure(
        self,
        url: str,
        *,
        method: str = "HEAD",
        headers: Mapping[str, str] | None = None,
        ca_bundle: str | None = None,
    ) -> tuple[int, bytes]:
        """Send a request for its Date header; return the status and an error's body.

        Raise `RequestFailure` without an answer. It contains no URL, which may be signed.
        """
        from ssl import create_default_context
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        context = create_default_context(cafile=ca_bundle) if url.startswith("https:") else None
        request = Request(url, method=method, headers=dict(headers or {}))
        try:
            with urlopen(request, timeout=CONNECT_TIMEOUT, context=context) as answer:
                status, body, date = answer.status, b"", answer.headers["Date"]
        except HTTPError as error:
            with error:
                status, body, date = error.code, error.read(MOST_BODY), error.headers["Date"]
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise RequestFailure(
                None,
                "unreachable",
                reason_of(reason) if isinstance(reason, BaseException) else str(reason),
                unreachable=True,
            ) from None
        self._measured = (_steady_time(), microseconds_of_http_date(date))
        return int(status), body
