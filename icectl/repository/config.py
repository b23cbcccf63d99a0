"""The stored configuration: FlexBuffers inside `repo` (V2), `config.yaml` before."""

from __future__ import annotations

from collections.abc import Callable

from icectl.errors import (
    ConflictError,
    FormatError,
    ObjectNotFoundError,
    PreconditionFailedError,
)
from icectl.format.config import decode_config_yaml, encode_config_yaml
from icectl.format.envelope import Generation
from icectl.format.values import decode_flexbuffers, encode_flexbuffers
from icectl.model.repo import RepoInfo
from icectl.repository import edits
from icectl.repository.backups import backup_name
from icectl.repository.clock import local_time, write_time
from icectl.repository.layout import CONFIG_PATH
from icectl.repository.ops_log import REPO_PATH, backup_object
from icectl.repository.repository import Repository
from icectl.repository.update import update_repo
from icectl.storage.contract import Storage, VersionedBytes

MAX_ATTEMPTS = 50

ConfigChange = Callable[[dict[str, object]], dict[str, object]]


def config_object(repository: Repository) -> str:
    """The object that holds the configuration."""
    return CONFIG_PATH if repository.info is None else REPO_PATH


def read_config(repository: Repository) -> dict[str, object]:
    """The configuration as the repository stores it; settings that it leaves out are defaults."""
    if repository.info is not None:
        return decode_config(repository.info.config)
    try:
        data = repository.storage.read(CONFIG_PATH)
    except ObjectNotFoundError:
        return {}
    return _decode_config_yaml(data)


def update_config(repository: Repository, change: ConfigChange) -> None:
    """Apply `change` to the configuration; it may be called more than once."""
    repository.check_writable()
    if repository.generation is Generation.V1:
        update_config_file(
            repository.storage,
            lambda data: encode_config_yaml(change(_decode_config_yaml(data or b""))),
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


def decode_config(data: bytes | None) -> dict[str, object]:
    config = decode_flexbuffers(data) if data else {}
    if not isinstance(config, dict):
        raise FormatError("the configuration is not a mapping", path=REPO_PATH)
    return config


def _decode_config_yaml(data: bytes) -> dict[str, object]:
    try:
        return decode_config_yaml(data)
    except FormatError as error:
        raise error.at(CONFIG_PATH) from None
