"""Object storage for the jobs: seaweedfs behind a proxy that adds latency and counts requests.

Both run below a child process, so that the harness does not import their libraries. The server
keeps its data in `.bench/`, where a later run finds it.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.servers.processes import program
from tests.servers.s3 import BUCKET, S3Server

PROJECT = Path(__file__).parents[2]
DIRECTORY = PROJECT / ".bench" / "seaweedfs"
LATENCY_SECONDS = 0.03
TRANSFERS = "32"


class ObjectStore:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.object_store"],
            cwd=PROJECT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        urls = json.loads(self._read_line())
        self._direct = S3Server(urls["server"])
        self.environment = S3Server(urls["proxy"]).environment
        """Leads clients through the proxy."""

    def take_traffic(self) -> dict[str, int]:
        """The fields of `tests.servers.latency.Traffic` since the last call."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        traffic: dict[str, int] = json.loads(self._read_line())
        return traffic

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the object store ended with {self._process.wait()}")
        return line

    @property
    def direct_url(self) -> str:
        """Of the server itself, without latency."""
        return self._direct.url

    def copy(self, repository: Path, name: str) -> None:
        """Make `s3://BUCKET/NAME` equal to the local repository, without latency."""
        self._rclone("sync", "--ignore-times", repository, f":s3:{BUCKET}/{name}")

    def remove(self, name: str) -> None:
        self._rclone("purge", f":s3:{BUCKET}/{name}", check=False)

    def _rclone(self, *words: object, check: bool = True) -> None:
        rclone = [program("rclone"), "--config", os.devnull, "--quiet"]
        rclone += ["--transfers", TRANSFERS, "--checkers", TRANSFERS]
        rclone += ["--s3-provider", "Other", "--s3-env-auth", "--s3-endpoint", self._direct.url]
        rclone += ["--s3-no-check-bucket", "--s3-no-head"]
        subprocess.run(
            [*rclone, *map(str, words)], env=os.environ | self._direct.environment, check=check
        )

    def copy_once(self, repository: Path) -> str:
        """The URL of a copy, from this or an earlier run, that no job changes."""
        done = DIRECTORY / "copied" / repository.name
        if not done.exists():
            print(f"copying {repository.name} to object storage", file=sys.stderr, flush=True)
            self.copy(repository, repository.name)
            done.parent.mkdir(exist_ok=True)
            done.touch()
        return repository_url(repository.name)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def repository_url(name: str) -> str:
    return f"s3://{BUCKET}/{name}"


@functools.cache
def object_store() -> ObjectStore:
    """The one of this process, started when a job first asks for it."""
    store = ObjectStore()
    atexit.register(store.close)
    return store


def main() -> None:
    from dataclasses import asdict

    from tests.servers.latency import latency_proxy
    from tests.servers.s3 import seaweedfs

    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with seaweedfs(DIRECTORY) as server, latency_proxy(server.url, LATENCY_SECONDS) as proxy:
        print(json.dumps({"server": server.url, "proxy": proxy.url}), flush=True)
        while sys.stdin.readline():
            print(json.dumps(asdict(proxy.take())), flush=True)


if __name__ == "__main__":
    main()
