"""S3 and compatible servers, through obstore."""

from __future__ import annotations

import re
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

from icectl.errors import Remedy
from icectl.storage.aws import AwsSettings
from icectl.storage.contract import Storage, Version
from icectl.storage.object_store import PerProcess
from icectl.storage.obstore_driver import RETRY_CONFIG, ObstoreStorage, client_options
from icectl.storage.paths import PRIVATE_PREFIX
from icectl.storage.retry import RequestFailure
from icectl.storage.s3 import S3Storage

_HOST_NAME = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
"""A bucket name that can be part of a host name under a wildcard certificate."""


SIGNED_FOR = timedelta(minutes=5)


class ObstoreS3(ObstoreStorage):
    scheme = "s3"
    permission_hint = Remedy("check-aws-credentials")
    deletes_per_request = 1000
    deletes_in_flight = 8
    impossible_version = Version('"00000000000000000000000000000000"')
    _probe_brings_time = True

    def __init__(self, fallback: S3Storage) -> None:
        super().__init__(fallback._bucket, fallback._prefix, fallback.access)
        self.fallback: S3Storage = fallback

    def _start(self) -> None:
        super()._start()
        self._settings: PerProcess[AwsSettings] = PerProcess()

    def in_bucket(self, bucket: str) -> Self:
        other = super().in_bucket(bucket)
        other._settings = self._settings
        return other

    @property
    def server(self) -> str:
        return self.fallback.server

    def can_copy_from(self, source: Storage) -> bool:
        # The credentials of another profile may not reach the source.
        return (
            isinstance(source, ObstoreS3)
            and source.fallback.profile == self.fallback.profile
            and super().can_copy_from(source)
        )

    def _find_settings(self) -> AwsSettings:
        return self._settings.get(self.fallback.find_settings)

    def _find_url(self) -> str:
        """Return the URL of the bucket, by the rules of botocore."""
        settings = self._find_settings()
        region = settings.region
        domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        endpoint = settings.endpoint_url or f"https://{settings.host_prefix}.{region}.{domain}"
        parts = urlsplit(endpoint.rstrip("/"))
        if (
            settings.path_style
            or self.fallback.force_path_style
            or not _HOST_NAME.fullmatch(self._bucket)
            or _is_address(parts.hostname or "")
        ):
            return f"{parts.scheme}://{parts.netloc}{parts.path}/{self._bucket}"
        return f"{parts.scheme}://{self._bucket}.{parts.netloc}{parts.path}"

    def _make_store(self, read_timeout: float) -> Any:
        from obstore.store import S3Store

        settings = self._find_settings()
        url = self._find_url()
        options: Any = client_options(url, read_timeout=read_timeout)
        provider: Any = settings.credentials
        if settings.ca_bundle:
            options["root_certificate"] = Path(settings.ca_bundle).read_bytes()
        return S3Store(
            self._bucket,
            # With the bucket in the endpoint the library adds nothing to it.
            endpoint=url,
            virtual_hosted_style_request=True,
            region=settings.region,
            skip_signature=provider is None,
            credential_provider=provider,
            client_options=options,
            retry_config=RETRY_CONFIG,
        )

    def _probe_conditions(self) -> None:
        if self._clock.is_known or self._requests is not self or not self._probe_by_url():
            super()._probe_conditions()

    def _probe_by_url(self) -> bool:
        """Send the probe by a signed URL, whose answer also has the time; return if that did it."""
        from obstore import sign
        from obstore.exceptions import BaseError

        settings = self._find_settings()
        if settings.credentials is None:
            return False
        path = f"{PRIVATE_PREFIX}probe.{uuid4().hex}"
        headers = {"If-Match": self.impossible_version.token, "Content-Length": "0"}
        try:
            url = sign(self._client, "PUT", self._key(path), SIGNED_FOR)
            status, body = self._clock.measure(
                url, method="PUT", headers=headers, ca_bundle=settings.ca_bundle
            )
        except (RequestFailure, BaseError):
            return False  # the other probe reports the cause
        if status < 300:
            self._delete_batch([path])
        return status in (409, 412) or (status == 404 and b"NoSuchKey" in body)

    def _send_for_clock(self) -> None:
        if not self._clock.is_known:
            self._clock.measure(self._find_url(), ca_bundle=self._find_settings().ca_bundle)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
