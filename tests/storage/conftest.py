"""Every backend on its real server, each test below its own prefix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from icectl.storage.contract import Storage
from icectl.storage.open import open_storage
from tests.servers.proxy import Faults, fault_proxy

SERVER_FIXTURES = {
    "seaweedfs": "seaweedfs_server",
    "moto": "moto_server",
    "gcs": "gcs_server",
    "azurite": "azurite_server",
}
SCHEMES = {"gcs": "gs", "azurite": "az"}
PROXIED = ("seaweedfs", "seaweedfs-fsspec", "gcs", "gcs-fsspec", "azurite")
HONEST = ("local", "memory", *PROXIED)
ALL = (*HONEST, "moto")
ENDPOINTS = ("AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST", "AZURE_STORAGE_ENDPOINT")


def backends(*names: str) -> list[object]:
    return [
        pytest.param(name, marks=() if name in ("local", "memory") else pytest.mark.server)
        for name in names
    ]


@dataclass
class Backend:
    name: str
    location: str
    environment: dict[str, str]
    options: dict[str, str] = field(default_factory=dict)

    def open(self, **options: str) -> Storage:
        return open_storage(self.location, {**self.options, **options})


@pytest.fixture
def make_backend(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Backend]:
    def make(name: str) -> Backend:
        if name == "local":
            return Backend(name, str(tmp_path / "repository"), {})
        unique = uuid4().hex
        if name == "memory":
            return Backend(name, f"memory://{unique}", {})
        kind, _, driver = name.partition("-")
        server = request.getfixturevalue(SERVER_FIXTURES[kind])
        for key, value in server.environment.items():
            monkeypatch.setenv(key, value)
        location = f"{SCHEMES.get(kind, 's3')}://{server.bucket}/{unique}"
        return Backend(name, location, server.environment, {"driver": driver} if driver else {})

    return make


@pytest.fixture(params=backends(*ALL))
def backend(request: pytest.FixtureRequest, make_backend: Callable[[str], Backend]) -> Backend:
    return make_backend(request.param)


@pytest.fixture
def storage(backend: Backend) -> Storage:
    return backend.open()


@pytest.fixture(params=backends(*PROXIED))
def behind_proxy(request: pytest.FixtureRequest, make_backend: Callable[[str], Backend]):  # type: ignore[no-untyped-def]
    """A storage whose requests go through a proxy, and the faults of that proxy."""
    backend = make_backend(request.param)
    url = next(backend.environment[name] for name in ENDPOINTS if name in backend.environment)
    faults = Faults()
    with fault_proxy(url, faults) as proxy_url:
        path = urlsplit(url).path  # Azurite has the account in it
        yield backend.open(endpoint_url=proxy_url + path), faults


@pytest.fixture(params=["obstore", "fsspec"])
def each_driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with each driver as the default."""
    monkeypatch.setattr("icectl.storage.open.DEFAULT_DRIVER", request.param)
    return str(request.param)
