"""A repository behind a web server, or in a public bucket with a web address: read-only.

A web server has no listing, so only what the repo file and its references name can be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from typing import Any, NoReturn

from icectl.errors import RefusedError, Remedy, UnsupportedError
from icectl.storage.contract import ListingShard, Version
from icectl.storage.object_store import ListedPage
from icectl.storage.obstore_driver import RETRY_CONFIG, ObstoreStorage, client_options
from icectl.storage.retry import RequestFailure


class WebStorage(ObstoreStorage):
    permission_hint = "use s3://, gs:// or az:// with credentials"
    deletes_in_flight = 1
    impossible_version = Version('"0"')

    def __init__(self, scheme: str, host: str, prefix: str) -> None:
        self.scheme = scheme
        super().__init__(host, prefix)

    def listing_shards(self) -> int:
        return 1

    def _find_url(self) -> str:
        return f"{self.scheme}://{self._bucket}"

    def _make_store(self, read_timeout: float) -> Any:
        from obstore.store import HTTPStore

        url = self._find_url()
        options: Any = client_options(url, read_timeout=read_timeout)
        return HTTPStore(url, client_options=options, retry_config=RETRY_CONFIG)

    def _version(self, meta: Mapping[str, Any]) -> Version:
        return Version(meta["e_tag"] or str(meta["last_modified"]))

    def _pages(self, directory: str, starts_with: str, shard: ListingShard) -> Iterator[ListedPage]:
        raise self._cannot_list()

    def _list_directories(self, directory: str) -> Iterator[str]:
        raise self._cannot_list()

    def _cannot_list(self) -> UnsupportedError:
        return UnsupportedError(
            f"{self.location} cannot be listed, because it is behind a web server",
            hint=Remedy("use-storage-address"),
        )

    def ensure_conditional_writes(self) -> None:
        self._refuse()

    def _put_object(
        self, key: str, data: bytes, expected: Version | None, metadata: Mapping[str, str]
    ) -> Version:
        self._refuse()

    def _delete_objects(self, keys: Seq[str]) -> Mapping[str, RequestFailure]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise RefusedError(
            f"{self.location} is read-only, because it is behind a web server",
            hint=Remedy("use-storage-address"),
        )
