"""Google Cloud Storage, through obstore, which uses the XML API.

The library itself handles service accounts and the credentials of gcloud; google.auth, whose import
takes long, finds all others. Without credentials, requests are anonymous.
"""

from __future__ import annotations

import json
import logging
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any, Self

from icectl.errors import Remedy, StorageError
from icectl.storage.cloud_variables import cloud_variables
from icectl.storage.contract import ListingShard, Version
from icectl.storage.gcs import GcsStorage, check_credentials_file, refuse_plain_http
from icectl.storage.object_store import ListedPage, PerProcess
from icectl.storage.obstore_driver import RETRY_CONFIG, ObstoreStorage, client_options

logger = logging.getLogger(__name__)

GOOGLE = "https://storage.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/devstorage.full_control"
TOKEN_URI = "https://oauth2.googleapis.com/token"
NATIVE = {"service_account": "service_account", "authorized_user": "application_credentials"}
"""Kinds of credentials files, and the setting of the library for each."""


class ObstoreGcs(ObstoreStorage):
    copies_on_server = False
    """The library uses the XML interface; a server without it may write an empty object."""
    scheme = "gs"
    permission_hint = Remedy("check-google-credentials")
    deletes_per_request = 1
    deletes_in_flight = 64
    impossible_version = Version("1")

    def __init__(self, fallback: GcsStorage) -> None:
        super().__init__(fallback._bucket, fallback._prefix, fallback.access)
        self.fallback: GcsStorage = fallback

    def _start(self) -> None:
        super()._start()
        self._credentials: PerProcess[Mapping[str, Any]] = PerProcess()

    def in_bucket(self, bucket: str) -> Self:
        other = super().in_bucket(bucket)
        other._credentials = self._credentials  # one token for all
        return other

    def _find_endpoint(self) -> str:
        host = self.access.endpoint_url or cloud_variables().get("STORAGE_EMULATOR_HOST") or GOOGLE
        return (host if "://" in host else f"http://{host}").rstrip("/")

    def _find_url(self) -> str:
        return f"{self._find_endpoint()}/{self._bucket}"

    def _version(self, meta: Mapping[str, Any]) -> Version:
        return Version(meta["version"] or "")

    def _etag(self, meta: Mapping[str, Any]) -> str | None:
        # Both interfaces of Google have etags, and they differ.
        return None

    def _condition(self, expected: Version) -> Mapping[str, str]:
        return {"version": expected.token}

    def _pages(self, directory: str, starts_with: str, shard: ListingShard) -> Iterator[ListedPage]:
        # Listings have fractions of a second, and all other answers do not.
        for page in super()._pages(directory, starts_with, shard):
            yield replace(page, created_at=page.created_at // 1_000_000 * 1_000_000)

    def _make_store(self, read_timeout: float) -> Any:
        from obstore.store import GCSStore

        endpoint = self._find_endpoint()
        credentials: Any = {}
        if not self.access.anonymous:
            credentials = self._credentials.get(self._find_credentials)
        if credentials:
            refuse_plain_http(endpoint)
        else:
            # Without a key the library asks a metadata server for a token, even if it needs none.
            key = {"private_key": "", "private_key_id": "", "client_email": ""}
            no_token = json.dumps({**key, "disable_oauth": True, "gcs_base_url": endpoint})
            credentials = {"service_account_key": no_token, "skip_signature": True}
        options: Any = client_options(endpoint, read_timeout=read_timeout)
        return GCSStore(
            self._bucket,
            base_url=endpoint,
            client_options=options,
            retry_config=RETRY_CONFIG,
            **credentials,
        )

    def _find_credentials(self) -> Mapping[str, Any]:
        file = self.fallback.credentials_file or cloud_variables().get(
            "GOOGLE_APPLICATION_CREDENTIALS"
        )
        if not file:
            default = _gcloud_file()
            file = str(default) if default.is_file() else None
        if file:
            check_credentials_file(file)
            content = json.loads(Path(file).read_bytes())
            kind = content.get("type") if isinstance(content, dict) else None
            if kind in NATIVE and content.get("token_uri", TOKEN_URI) == TOKEN_URI:
                return {NATIVE[kind]: file}
        try:
            provider = _ask_google_auth(file)
        except Exception as error:
            raise StorageError(
                f"the Google credentials cannot be used ({type(error).__name__})",
                hint=self.permission_hint,
            ) from None
        return {} if provider is None else {"credential_provider": provider}


def _gcloud_file() -> Path:
    directory = cloud_variables().get("CLOUDSDK_CONFIG") or "~/.config/gcloud"
    return Path(directory).expanduser() / "application_default_credentials.json"


def _ask_google_auth(file: str | None) -> GoogleToken | None:
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    if file:
        with warnings.catch_warnings():
            # It warns of files from untrusted sources; the user named this one.
            warnings.simplefilter("ignore", DeprecationWarning)
            load: Any = google.auth.load_credentials_from_file
            credentials, _ = load(file, scopes=[SCOPE])
        return GoogleToken(credentials)
    try:
        credentials, _ = google.auth.default(scopes=[SCOPE])
    except DefaultCredentialsError:
        logger.info("no Google credentials found; requests are anonymous")
        return None
    return GoogleToken(credentials)


class GoogleToken:
    """A token of google.auth, which refreshes it."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials
        self._lock = threading.Lock()

    def __call__(self) -> Mapping[str, Any]:
        from google.auth.transport.requests import Request

        try:
            with self._lock:
                if not self._credentials.valid:
                    self._credentials.refresh(Request())
        except Exception as error:
            # Only the type: the message may contain a secret.
            raise RuntimeError(f"credentials failed: {type(error).__name__}") from None
        expiry = self._credentials.expiry
        if expiry is not None and expiry.tzinfo is None:
            expiry = expiry.replace(tzinfo=UTC)
        return {"token": self._credentials.token, "expires_at": expiry}
