"""Azurite, a real Azure Blob Storage server from npm, and a plain web server."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import hmac
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.servers.processes import free_port, running, wait_for_port

VERSION = "3.35.0"
INSTALLED = Path(__file__).parents[2] / ".pytest_cache" / f"azurite-{VERSION}"
INSTALL_SECONDS = 300
CONTAINER = "icectl-tests"
ACCOUNT = "devstoreaccount1"
# The published key of every emulator.
ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


@dataclass(frozen=True)
class AzureServer:
    url: str
    """With the name of the account, as emulators want it."""
    bucket: str = CONTAINER

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AZURE_STORAGE_ENDPOINT": self.url,
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY,
        }

    @property
    def connection_string(self) -> str:
        return f"AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};BlobEndpoint={self.url};"


@contextlib.contextmanager
def azurite(directory: Path) -> Iterator[AzureServer]:
    program = install_azurite()
    port = free_port()
    command = [
        *("node", str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port)),
        *("--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"),
    ]
    with running(command, directory) as process:
        wait_for_port(process, port)
        server = AzureServer(f"http://127.0.0.1:{port}/{ACCOUNT}")
        create_container(server)
        yield server


def install_azurite() -> Path:
    """Install it once for all test runs; skip the test where that is impossible."""
    program = INSTALLED / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with (INSTALLED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            command = ["npm", "install", "--no-audit", "--no-fund", f"azurite@{VERSION}"]
            try:
                done = subprocess.run(
                    [*command, "--prefix", str(INSTALLED)],
                    capture_output=True,
                    timeout=INSTALL_SECONDS,
                )
            except subprocess.TimeoutExpired:
                pytest.skip("npm did not install azurite in time")
            if done.returncode != 0:
                pytest.skip(f"npm cannot install azurite: {done.stderr[-200:]!r}")
    return program


def create_container(server: AzureServer) -> None:
    date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = {"x-ms-date": date, "x-ms-version": "2021-12-02"}
    lines = [*(f"{name}:{value}" for name, value in headers.items())]
    resource = f"/{ACCOUNT}/{ACCOUNT}/{server.bucket}\nrestype:container"
    text = "\n".join(["PUT", *[""] * 11, *lines, resource])
    key = base64.b64decode(ACCOUNT_KEY)
    signature = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
    request = urllib.request.Request(
        f"{server.url}/{server.bucket}?restype=container",
        method="PUT",
        headers={**headers, "Authorization": f"SharedKey {ACCOUNT}:{signature}"},
    )
    with urllib.request.urlopen(request, timeout=30):
        pass


@contextlib.contextmanager
def web_server(directory: Path, root: Path) -> Iterator[str]:
    """The URL of a plain web server for the files below `root`."""
    port = free_port()
    command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    with running([*command, "--directory", str(root)], directory) as process:
        wait_for_port(process, port)
        yield f"http://127.0.0.1:{port}"
