"""Open the files to which virtual chunks refer.

Their locations come from the repository and are untrusted. Storage options apply only to the scheme
of the repository, so credentials for one cloud are never sent to another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from icectl.storage.cloud_variables import check_cloud_variables
from icectl.storage.contract import Storage
from icectl.storage.open import open_storage, split_bucket, split_location, without_password

if TYPE_CHECKING:
    from icectl.storage.object_store import ObjectStore


class SourceOpener:
    """Opens the root of each source; all buckets of a scheme share one client."""

    def __init__(
        self, repository: str, options: Mapping[str, str], environ: Mapping[str, str]
    ) -> None:
        """`options` are those of the repository, which is at the location `repository`."""
        self._scheme, _ = split_location(repository)
        self._options = options
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
        check_cloud_variables(root, options, self._environ)
        storage = open_storage(root, options)
        if isinstance(storage, ObjectStore):
            self._clients[scheme] = storage
        return storage
