"""The proxy with latency: what it counts, what it costs, and that it changes no request."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from icectl.storage.open import open_storage
from tests.servers.latency import count_most_in_flight, count_rounds, latency_proxy
from tests.servers.s3 import S3Server, s3_client

DELAY = 0.03


@pytest.mark.parametrize(
    ("intervals", "rounds", "in_flight"),
    [
        ([], 0, 0),
        ([(0, 1)], 1, 1),
        ([(0, 1), (0, 1), (0.5, 2)], 1, 3),
        ([(0, 1), (1, 2), (2, 3)], 3, 1),
        ([(0, 10), (0, 1), (2, 3), (4, 5)], 3, 2),
    ],
)
def test_rounds_are_the_longest_chain(
    intervals: list[tuple[float, float]], rounds: int, in_flight: int
) -> None:
    assert count_rounds(intervals) == rounds
    assert count_most_in_flight(intervals) == in_flight


@pytest.mark.server
def test_requests_in_turn_and_at_once(seaweedfs_server: S3Server) -> None:
    with latency_proxy(seaweedfs_server.url, DELAY) as proxy:
        client = s3_client(S3Server(proxy.url))
        place = {"Bucket": seaweedfs_server.bucket, "Key": "latency/object"}
        client.put_object(**place, Body=b"x" * 3_000_000)
        proxy.take()

        begin = time.monotonic()
        for _ in range(5):
            assert client.get_object(**place)["Body"].read() == b"x" * 3_000_000
        assert time.monotonic() - begin >= 5 * DELAY
        traffic = proxy.take()
        assert (traffic.requests, traffic.rounds, traffic.most_in_flight) == (5, 5, 1)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: client.head_object(**place), range(8)))
        traffic = proxy.take()
        assert traffic.requests == 8
        assert traffic.rounds < 8
        assert proxy.take().requests == 0


@pytest.mark.server
def test_conditional_puts_and_deletes_pass(
    seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with latency_proxy(seaweedfs_server.url, 0) as proxy:
        for key, value in S3Server(proxy.url).environment.items():
            monkeypatch.setenv(key, value)
        storage = open_storage(f"s3://{seaweedfs_server.bucket}/latency/storage")
        storage.put_if_absent("a", b"1")
        old = storage.read_versioned("a")
        storage.put_if_match("a", b"2", old.version)
        assert storage.read_versioned("a").data == b"2"
        assert proxy.take().requests >= 4
