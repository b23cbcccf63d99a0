"""Open the storage of a repository and the storages of its virtual chunks.

The locations of virtual chunks come from the repository and are untrusted. Storage options apply
only to the scheme of the repository, so credentials for one cloud are never sent to another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from icectl.cli.locations import Location, without_password
from icectl.storage.contract import Storage
from icectl.storage.open import check_endpoint_url, open_storage, split_bucket, split_location

if TYPE_CHECKING:
    from icectl.storage.object_store import ObjectStore


def open_location(location: Location, environ: Mapping[str, str]) -> Storage:
    """Check the variables that the cloud libraries would read, and open the storage.

    With an invalid value, the libraries retry for many seconds, and their errors do not name the
    variable.
    """
    scheme, _ = split_location(location.url)
    options = location.storage_options
    if scheme == "s3" and "endpoint_url" not in options:
        names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        used = next((name for name in names if environ.get(name)), None)
        if used is not None:
            check_endpoint_url(environ[used], f"the variable {used}")
    if scheme == "gs" and options.get("anonymous", "false").lower() in ("false", "0"):
        file = environ.get("GOOGLE_APPLICATION_CREDENTIALS")
        if file and "credentials_file" not in options:
            from icectl.storage.gcs import check_credentials_file

            check_credentials_file(file)
    return open_storage(location.url, options)


class SourceOpener:
    """Opens the root of each source; all buckets of a scheme share one client."""

    def __init__(self, repository: Location, environ: Mapping[str, str]) -> None:
        self._scheme, _ = split_location(repository.url)
        self._options = repository.storage_options
        self._environ = environ
        self._clients: dict[str, ObjectStore] = {}

    def __call__(self, root: str) -> Storage:
        from icectl.storage.local import LocalStorage
        from icectl.storage.object_store import ObjectStore

        scheme, rest = split_location(without_password(root))
        client = self._clients.get(scheme)
        if client is not None:
            return client.in_bucket(split_bucket(scheme, rest)[0])
        if scheme == "file":
            # Links are refused only below the root of a repository.
            return LocalStorage(rest, follow_links=True)
        options = dict(self._options) if scheme == self._scheme else {}
        if scheme == "s3":
            options["legacy_rooted_keys"] = "false"
        storage = open_location(Location(root, options), self._environ)
        if isinstance(storage, ObjectStore):
            self._clients[scheme] = storage
        return storage
