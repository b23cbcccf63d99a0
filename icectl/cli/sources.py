"""Open the storages of virtual chunks.

Their locations come from the repository and are untrusted. Storage options apply only to the
scheme of the repository, so credentials for one cloud are never sent to another.
"""

from __future__ import annotations

from collections.abc import Mapping

from icectl.cli.locations import Location, without_password
from icectl.cli.variables import check_variables
from icectl.storage.contract import Storage
from icectl.storage.local import LocalStorage
from icectl.storage.object_store import ObjectStore
from icectl.storage.open import open_storage, split_bucket, split_location


class SourceOpener:
    """Opens the root of each source; all buckets of a scheme share one client."""

    def __init__(self, repository: Location, environ: Mapping[str, str]) -> None:
        self._scheme, _ = split_location(repository.url)
        self._options = repository.storage_options
        self._environ = environ
        self._clients: dict[str, ObjectStore] = {}

    def __call__(self, root: str) -> Storage:
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
        check_variables(Location(root, options), self._environ)
        storage = open_storage(root, options)
        if isinstance(storage, ObjectStore):
            self._clients[scheme] = storage
        return storage
