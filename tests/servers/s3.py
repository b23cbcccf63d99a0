"""Real S3 servers: seaweedfs (honest, with permissions), moto (quick), rclone (no conditions)."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_SECONDS
from tests.servers.processes import free_port, program, running, wait_for_port

BUCKET = "icectl-tests"
ACCESS_KEY = "test-access"
SECRET_KEY = "test-secret-0123456789"
READER_ACCESS_KEY = "reader-access"
READER_SECRET_KEY = "reader-secret-0123456789"
LIMITED_ACCESS_KEY = "limited-access"
LIMITED_SECRET_KEY = "limited-secret-0123456789"
LIMITED_ACTIONS = ["Read", "List", f"Write:{BUCKET}/limited/allowed*"]


@dataclass(frozen=True)
class S3Server:
    """Where it listens; `environment` is what a client needs to come in."""

    url: str
    bucket: str = BUCKET

    @property
    def environment(self) -> dict[str, str]:
        return aws_environment(self.url, ACCESS_KEY, SECRET_KEY)

    @property
    def reader_environment(self) -> dict[str, str]:
        """Credentials that may read and list, and nothing else (seaweedfs only)."""
        return aws_environment(self.url, READER_ACCESS_KEY, READER_SECRET_KEY)

    @property
    def limited_environment(self) -> dict[str, str]:
        """Credentials that may write `limited/allowed*` and nothing else (seaweedfs only)."""
        return aws_environment(self.url, LIMITED_ACCESS_KEY, LIMITED_SECRET_KEY)

    def official_storage(self, prefix: str) -> Any:
        """The official package's storage on this server."""
        import icechunk

        return icechunk.s3_storage(
            bucket=self.bucket,
            prefix=prefix,
            endpoint_url=self.url,
            allow_http=True,
            force_path_style=True,
            region="us-east-1",
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
        )


def aws_environment(url: str, access_key: str, secret_key: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": access_key,
        "AWS_SECRET_ACCESS_KEY": secret_key,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }


def s3_client(server: S3Server) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=server.url,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=10, read_timeout=60),
    )


def create_bucket(server: S3Server, *, timeout: float = PATIENCE_SECONDS) -> None:
    """Create the bucket and wait until it takes an object."""
    client = s3_client(server)
    deadline = time.monotonic() + timeout
    while True:
        try:
            with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou):
                client.create_bucket(Bucket=server.bucket)
            client.put_object(Bucket=server.bucket, Key="ready", Body=b"yes")
            client.delete_object(Bucket=server.bucket, Key="ready")
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


@contextlib.contextmanager
def seaweedfs(directory: Path) -> Iterator[S3Server]:
    identities = [
        _identity("writer", ACCESS_KEY, SECRET_KEY, ["Admin", "Read", "List", "Tagging", "Write"]),
        _identity("limited", LIMITED_ACCESS_KEY, LIMITED_SECRET_KEY, LIMITED_ACTIONS),
        _identity("reader", READER_ACCESS_KEY, READER_SECRET_KEY, ["Read", "List"]),
    ]
    (directory / "s3.json").write_text(json.dumps({"identities": identities}))
    (directory / "data").mkdir(exist_ok=True)
    master, volume, filer, s3 = (free_port() for _ in range(4))
    command = [
        program("weed"),
        "server",
        "-dir=data",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        f"-master.port={master}",
        f"-volume.port={volume}",
        # Each bucket takes seven.
        "-volume.max=100",
        "-master.volumeSizeLimitMB=256",
        "-filer",
        f"-filer.port={filer}",
        "-s3",
        f"-s3.port={s3}",
        "-s3.config=s3.json",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
    ]
    with running(command, directory) as process:
        wait_for_port(process, s3)
        server = S3Server(f"http://127.0.0.1:{s3}")
        create_bucket(server)
        yield server


def _identity(name: str, key: str, secret: str, actions: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "credentials": [{"accessKey": key, "secretKey": secret}],
        "actions": actions,
    }


@contextlib.contextmanager
def moto(directory: Path) -> Iterator[S3Server]:
    port = free_port()
    with running(
        [program("moto_server"), "-H", "127.0.0.1", "-p", str(port)], directory
    ) as process:
        wait_for_port(process, port)
        server = S3Server(f"http://127.0.0.1:{port}")
        create_bucket(server)
        yield server


@contextlib.contextmanager
def rclone(directory: Path) -> Iterator[S3Server]:
    """A server that takes conditional puts and ignores the conditions."""
    (directory / "data" / BUCKET).mkdir(parents=True)
    port = free_port()
    command = [
        program("rclone"),
        "serve",
        "s3",
        "--addr",
        f"127.0.0.1:{port}",
        "--auth-key",
        f"{ACCESS_KEY},{SECRET_KEY}",
        "--config",
        "rclone.conf",
        "data",
    ]
    with running(command, directory) as process:
        wait_for_port(process, port)
        yield S3Server(f"http://127.0.0.1:{port}")
