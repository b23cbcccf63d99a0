"""A proxy that adds latency to every request of an HTTP/1.1 server and counts the requests.

It runs in its own process on one asyncio loop and holds hundreds of connections. It keeps them
alive, passes all bytes on unchanged (signatures include the Host header), and does not parse
bodies: without pipelining, a request begins with the first bytes that follow a response.

    with latency_proxy(server.url, 0.03) as proxy:
        …                       # requests to proxy.url
        traffic = proxy.take()  # what passed since the last call
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PROJECT = Path(__file__).parents[2]
METHODS = (b"GET ", b"PUT ", b"POST ", b"HEAD ", b"DELETE ")
BACKLOG = 1024


@dataclass(frozen=True)
class Traffic:
    requests: int
    rounds: int
    """The longest chain of requests that each began after the one before had been answered."""
    most_in_flight: int
    processor_seconds: float
    """What the proxy itself used."""


@dataclass
class LatencyProxy:
    url: str
    _process: subprocess.Popen[str]

    def take(self) -> Traffic:
        """The traffic since the last call."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Traffic(**json.loads(self._process.stdout.readline()))


@contextlib.contextmanager
def latency_proxy(server_url: str, delay: float) -> Iterator[LatencyProxy]:
    command = [sys.executable, "-m", "tests.servers.latency", server_url, str(delay)]
    with subprocess.Popen(
        command, cwd=PROJECT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield LatencyProxy(process.stdout.readline().strip(), process)
        finally:
            process.stdin.close()  # which ends it
            process.wait(30)


def count_rounds(intervals: Sequence[tuple[float, float]]) -> int:
    """The largest number of intervals of which no two overlap."""
    rounds, free = 0, float("-inf")
    for begin, end in sorted(intervals, key=lambda interval: interval[1]):
        if begin >= free:
            rounds, free = rounds + 1, end
    return rounds


def count_most_in_flight(intervals: Sequence[tuple[float, float]]) -> int:
    changes = sorted(change for begin, end in intervals for change in ((begin, 1), (end, -1)))
    under_way = most = 0
    for _, change in changes:
        under_way += change
        most = max(most, under_way)
    return most


class _Server(asyncio.Protocol):
    """The connection to the server that belongs to one connection of a client."""

    def __init__(self, client: _Client) -> None:
        self.client = client

    def connection_made(self, transport: Any) -> None:
        self.client.server_connected(transport)

    def data_received(self, data: bytes) -> None:
        self.client.answered(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.client.transport.close()


class _Client(asyncio.Protocol):
    def __init__(self, proxy: _Proxy) -> None:
        self.proxy = proxy
        self.transport: Any = None
        self.server: Any = None
        self.pending: list[bytes] = []
        self.delayed = False
        self.answering = True
        self.request: list[float] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        connecting = self.proxy.loop.create_connection(lambda: _Server(self), *self.proxy.upstream)
        self.connecting = self.proxy.loop.create_task(connecting)

    def server_connected(self, transport: Any) -> None:
        self.server = transport
        self.pass_on()

    def data_received(self, data: bytes) -> None:
        self.pending.append(data)
        if self.answering and data.startswith(METHODS):
            now = self.proxy.loop.time()
            self.request = [now, now]
            self.proxy.requests.append(self.request)
            self.answering, self.delayed = False, True
            self.proxy.loop.call_later(self.proxy.delay, self.delay_over)
        else:
            self.pass_on()

    def delay_over(self) -> None:
        self.delayed = False
        self.pass_on()

    def pass_on(self) -> None:
        if self.pending and self.server is not None and not self.delayed:
            self.server.write(b"".join(self.pending))
            self.pending.clear()

    def answered(self, data: bytes) -> None:
        if not data.startswith(b"HTTP/1.1 100"):
            self.answering = True
        self.request[1] = self.proxy.loop.time()
        self.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.connecting.cancel()
        if self.server is not None:
            self.server.close()


class _Proxy:
    def __init__(self, server_url: str, delay: float) -> None:
        target = urlsplit(server_url)
        self.upstream = (target.hostname, target.port)
        self.delay = delay
        self.loop = asyncio.get_running_loop()
        self.requests: list[list[float]] = []
        self.processor_seconds = 0.0

    async def run(self) -> None:
        server = await self.loop.create_server(
            lambda: _Client(self), "127.0.0.1", 0, backlog=BACKLOG
        )
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        commands = asyncio.StreamReader()
        await self.loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
        while await commands.readline():
            print(json.dumps(self.take()), flush=True)

    def take(self) -> dict[str, float]:
        intervals = [(begin, end) for begin, end in self.requests]
        self.requests.clear()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        used, before = usage.ru_utime + usage.ru_stime, self.processor_seconds
        self.processor_seconds = used
        return {
            "requests": len(intervals),
            "rounds": count_rounds(intervals),
            "most_in_flight": count_most_in_flight(intervals),
            "processor_seconds": used - before,
        }


async def main() -> None:
    server_url, delay = sys.argv[1:]
    await _Proxy(server_url, float(delay)).run()


if __name__ == "__main__":
    asyncio.run(main())
