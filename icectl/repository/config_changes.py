"""Change the stored configuration."""

from __future__ import annotations

from collections.abc import Callable

from icectl.errors import ConflictError, ObjectNotFoundError, PreconditionFailedError
from icectl.format.config import encode_config_yaml
from icectl.format.envelope import Generation
from icectl.format.values import encode_flexbuffers
from icectl.model.repo import RepoInfo
from icectl.repository import edits
from icectl.repository.backups import backup_name
from icectl.repository.clock import local_time, write_time
from icectl.repository.config import decode_config, decode_config_file
from icectl.repository.layout import CONFIG_PATH
from icectl.repository.ops_log import backup_object
from icectl.repository.repository import Repository
from icectl.repository.update import update_repo
from icectl.storage.contract import Storage, VersionedBytes

MAX_ATTEMPTS = 50

ConfigChange = Callable[[dict[str, object]], dict[str, object]]


def update_config(repository: Repository, change: ConfigChange) -> None:
    """Apply `change` to the configuration; it may be called more than once."""
    repository.check_writable()
    if repository.generation is Generation.V1:
        update_config_file(
            repository.storage,
            lambda data: encode_config_yaml(change(decode_config_file(data or b""))),
        )
        return

    def edit(info: RepoInfo) -> edits.Edited:
        before = decode_config(info.config)
        after = change(dict(before))
        # The same configuration in other bytes is not a change.
        config = info.config if after == before and info.config else encode_flexbuffers(after)
        return edits.set_config(info, config)

    update_repo(repository.storage, edit, found=repository.found)


def update_config_file(storage: Storage, change: Callable[[bytes | None], bytes]) -> None:
    """Apply `change` to the text of the configuration file, keeping a copy of the old one."""
    storage.ensure_conditional_writes()
    for _ in range(MAX_ATTEMPTS):
        try:
            found: VersionedBytes | None = storage.read_versioned(CONFIG_PATH)
        except ObjectNotFoundError:
            found = None
        local = local_time()
        data = change(found.data if found else None)
        try:
            if found is None:
                storage.ensure_conditional_creates()
                storage.put_if_absent(CONFIG_PATH, data)
            elif data != found.data:
                now = write_time(found.read_at, local)
                backup = backup_object(backup_name(now, CONFIG_PATH))
                storage.put_if_absent(backup, found.data)
                storage.put_if_match(CONFIG_PATH, data, found.version)
        except PreconditionFailedError:
            continue
        return
    raise ConflictError(f"the configuration was changed by others {MAX_ATTEMPTS} times in a row")
