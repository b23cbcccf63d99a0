"""A proxy in front of a server that loses responses, cuts connections, delays, or answers for it.

It speaks HTTP/1.1 so far as to see where a request and its response end, and passes the
bytes on unchanged (the Host header included, so that signatures stay valid).
"""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.patience import PATIENCE_SECONDS


@dataclass
class Faults:
    """What goes wrong, counted over the requests whose method is in `methods`."""

    methods: frozenset[str] = frozenset({"PUT", "POST"})
    lose_one_in: int = 0
    """The request arrives at the server; the client gets no response."""
    refuse_one_in: int = 0
    """503 SlowDown, and the request never arrives."""
    refuse_above: int = 0
    """The same for requests while so many others are under way."""
    cut_one_in: int = 0
    """The connection ends in the middle of a body: of the request, if it has one, or the response.

    The server gets as much of a request as the client could send."""
    ignored_header: bytes = b""
    """In lower case; the server does not get to see it."""
    delay: float = 0.0
    gather: int = 0
    """Requests wait until so many have been under way together."""
    lost: int = 0
    refused: int = 0
    cut: int = 0
    in_flight: list[int] = field(default_factory=list)
    """For each request in turn, how many were under way with it."""
    _under_way: int = 0
    heads: list[bytes] = field(default_factory=list, repr=False)
    """The request line and the headers of all requests, whatever their method."""
    _count: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _gathered: threading.Event = field(default_factory=threading.Event, repr=False)

    def next_fault(self, method: str) -> str | None:
        if method not in self.methods:
            return None
        with self._lock:
            number = next(self._count)
            if self.lose_one_in and number % self.lose_one_in == 0:
                self.lost += 1
                return "lose"
            if self.cut_one_in and number % self.cut_one_in == 0:
                self.cut += 1
                return "cut"
            crowded = 0 < self.refuse_above < self._under_way
            if crowded or (self.refuse_one_in and number % self.refuse_one_in == 0):
                self.refused += 1
                return "refuse"
        return None

    @contextlib.contextmanager
    def under_way(self, method: str) -> Iterator[None]:
        counted = method in self.methods
        with self._lock:
            self._under_way += counted
            if counted:
                self.in_flight.append(self._under_way)
            if 0 < self.gather <= self._under_way:
                self._gathered.set()
        if counted and self.gather:
            self._gathered.wait(PATIENCE_SECONDS)
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= counted


SLOW_DOWN = (
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
REFUSAL = (
    b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n"
    % len(SLOW_DOWN)
)


@contextlib.contextmanager
def fault_proxy(server_url: str, faults: Faults) -> Iterator[str]:
    """The proxy's URL while the block runs."""
    target = urlsplit(server_url)
    assert target.hostname is not None and target.port is not None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop = threading.Event()
        upstream = (target.hostname, target.port)

        def accept() -> None:
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    client, _ = listener.accept()
                    threading.Thread(
                        target=_serve, args=(client, upstream, faults), daemon=True
                    ).start()

        acceptor = threading.Thread(target=accept, daemon=True)
        acceptor.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stop.set()
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join(5)


def _serve(client: socket.socket, upstream: tuple[str, int], faults: Faults) -> None:
    with contextlib.suppress(OSError), client, socket.create_connection(upstream) as server:
        requests, responses = client.makefile("rb"), server.makefile("rb")
        while head := _read_head(requests):
            faults.heads.append(head)
            method = head.split(b" ", 1)[0].decode()
            if b"expect: 100-continue" in head.lower():
                client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                head = b"\r\n".join(
                    line for line in head.split(b"\r\n") if not line.lower().startswith(b"expect:")
                )
            if faults.ignored_header:
                head = re.sub(rb"\r\n%s:[^\r]*" % faults.ignored_header, b"", head, flags=re.I)
            with faults.under_way(method):
                fault = faults.next_fault(method)
                length = _content_length(head)
                if fault == "cut" and length:
                    server.sendall(head + requests.read(length // 2))
                    return
                body = _read_body(requests, head)
                if faults.delay:
                    time.sleep(faults.delay)
                if fault == "refuse":
                    answer, payload = REFUSAL, SLOW_DOWN
                else:
                    server.sendall(head + body)
                    answer = _read_head(responses)
                    while answer.startswith(b"HTTP/1.1 100"):
                        answer = _read_head(responses)
                    bodiless = method == "HEAD" or answer.split(b" ", 2)[1] in (b"204", b"304")
                    payload = b"" if bodiless else _read_body(responses, answer, until_close=True)
                    if fault == "lose":
                        return
                    if fault == "cut":
                        client.sendall(answer + payload[: len(payload) // 2])
                        return
            client.sendall(answer + payload)


def _read_head(stream: socket.SocketIO) -> bytes:
    lines = []
    while line := stream.readline():
        lines.append(line)
        if line == b"\r\n":
            return b"".join(lines)
    return b""


def _content_length(head: bytes) -> int:
    found = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    return int(found[1]) if found else 0


def _read_body(stream: socket.SocketIO, head: bytes, *, until_close: bool = False) -> bytes:
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
    }
    if b"chunked" in headers.get(b"transfer-encoding", b""):
        parts = []
        while True:
            size_line = stream.readline()
            parts.append(size_line)
            size = int(size_line.split(b";")[0], 16)
            parts.append(stream.read(size + 2))
            if size == 0:
                return b"".join(parts)
    if b"content-length" in headers:
        return stream.read(int(headers[b"content-length"]))
    return stream.read() if until_close else b""
