"""Every backend on its real server, each test below its own prefix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from icectl.storage.contract import Storage
from icectl.storage.open import open_storage
from tests.servers.proxy import Faults, fault_proxy

SERVER_FIXTURES = {"seaweedfs": "seaweedfs_server", "moto": "moto_server", "gcs": "gcs_server"}
HONEST = ("local", "memory", "seaweedfs", "gcs")
ALL = ("local", "memory", "seaweedfs", "moto", "gcs")


def backends(*names: str) -> list[object]:
    return [
        pytest.param(name, marks=pytest.mark.server if name in SERVER_FIXTURES else ())
        for name in names
    ]


@dataclass
class Backend:
    name: str
    location: str
    environment: dict[str, str]

    def open(self, **options: str) -> Storage:
        return open_storage(self.location, options)


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
        server = request.getfixturevalue(SERVER_FIXTURES[name])
        for key, value in server.environment.items():
            monkeypatch.setenv(key, value)
        scheme = "gs" if name == "gcs" else "s3"
        return Backend(name, f"{scheme}://{server.bucket}/{unique}", server.environment)

    return make


@pytest.fixture(params=backends(*ALL))
def backend(request: pytest.FixtureRequest, make_backend: Callable[[str], Backend]) -> Backend:
    return make_backend(request.param)


@pytest.fixture
def storage(backend: Backend) -> Storage:
    return backend.open()


@pytest.fixture(params=backends("seaweedfs", "gcs"))
def behind_proxy(request: pytest.FixtureRequest, make_backend: Callable[[str], Backend]):  # type: ignore[no-untyped-def]
    """A storage whose requests go through a proxy, and the faults of that proxy."""
    backend = make_backend(request.param)
    url = (
        backend.environment.get("AWS_ENDPOINT_URL") or backend.environment["STORAGE_EMULATOR_HOST"]
    )
    faults = Faults()
    with fault_proxy(url, faults) as proxy_url:
        yield backend.open(endpoint_url=proxy_url), faults
