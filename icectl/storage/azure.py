"""Azure Blob Storage, through obstore.

Credentials come from the standard variables, in this order: a connection string, an account key, a
shared access signature, a token, a service principal, a workload or managed identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from icectl.errors import RefusedError, Remedy, UsageError
from icectl.storage.cloud_variables import cloud_variables
from icectl.storage.contract import Version
from icectl.storage.object_store import Access
from icectl.storage.obstore_driver import RETRY_CONFIG, ObstoreStorage, client_options
from icectl.storage.open import is_private_connection

CONNECTION_STRING = "AZURE_STORAGE_CONNECTION_STRING"
ACCOUNTS = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
ENDPOINTS = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
KEYS = (
    *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"),
    *("AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY"),
)
SIGNATURES = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")


class AzureStorage(ObstoreStorage):
    scheme = "az"
    permission_hint = Remedy("check-azure-credentials")
    deletes_per_request = 1
    deletes_in_flight = 64
    impossible_version = Version('"0x0"')

    def __init__(self, container: str, prefix: str, access: Access, *, account: str | None) -> None:
        super().__init__(container, prefix, access)
        self._account = account

    def listing_shards(self) -> int:
        # The library cannot begin a listing after a name.
        return 1

    @property
    def server(self) -> str:
        return f"{self._find_endpoint()} {self._find_account()}"

    def _find_account(self) -> str:
        parts = _parse_connection_string()
        account = self._account or _first(ACCOUNTS) or parts.get("accountname")
        if not account:
            raise UsageError(
                "the Azure storage account is not known", hint=Remedy("name-azure-account")
            )
        return account

    def _find_endpoint(self) -> str:
        parts = _parse_connection_string()
        endpoint = self.access.endpoint_url or _first(ENDPOINTS) or parts.get("blobendpoint")
        if endpoint:
            return endpoint.rstrip("/")
        suffix = parts.get("endpointsuffix", "core.windows.net")
        return f"https://{self._find_account()}.blob.{suffix}"

    def _find_url(self) -> str:
        return f"{self._find_endpoint()}/{self._bucket}"

    def _make_store(self, read_timeout: float) -> Any:
        from obstore.store import AzureStore

        endpoint = self._find_endpoint()
        settings: dict[str, Any] = {"skip_signature": True}
        if not self.access.anonymous:
            if not is_private_connection(endpoint):
                raise RefusedError(
                    "the endpoint of Azure Blob Storage is a plain http URL on another machine;"
                    " credentials would be sent unencrypted",
                    hint=Remedy("use-https-or-anonymous"),
                )
            settings = _find_credentials()
        options: Any = client_options(endpoint, read_timeout=read_timeout)
        return AzureStore(
            self._bucket,
            account_name=self._find_account(),
            endpoint=endpoint,
            client_options=options,
            retry_config=RETRY_CONFIG,
            **settings,
        )


def _find_credentials() -> dict[str, Any]:
    """Return the settings that the library does not read from the environment itself."""
    parts = _parse_connection_string()
    if key := parts.get("accountkey") or _first(KEYS):
        return {"account_key": key}
    if signature := parts.get("sharedaccesssignature") or _first(SIGNATURES):
        return {"sas_key": signature.lstrip("?")}
    return {}


def _parse_connection_string() -> Mapping[str, str]:
    pairs = (
        part.partition("=") for part in cloud_variables().get(CONNECTION_STRING, "").split(";")
    )
    return {key.strip().lower(): value for key, _, value in pairs if value}


def _first(names: tuple[str, ...]) -> str | None:
    environ = cloud_variables()
    return next((environ[name] for name in names if environ.get(name)), None)
