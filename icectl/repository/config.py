"""The stored configuration: FlexBuffers inside `repo` (V2), `config.yaml` before."""

from __future__ import annotations

from collections.abc import Callable

from icectl.errors import FormatError, ObjectNotFoundError
from icectl.format.config import decode_config_yaml, encode_config_yaml
from icectl.format.values import decode_flexbuffers, encode_flexbuffers
from icectl.model.repo import RepoInfo
from icectl.repository import edits, v1
from icectl.repository.layout import CONFIG_PATH
from icectl.repository.mutations import is_v1
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.repository import Repository
from icectl.repository.update import update_repo

ConfigChange = Callable[[dict[str, object]], dict[str, object]]


def read_config(repository: Repository) -> dict[str, object]:
    """The configuration as the repository stores it; what it leaves out is at its default."""
    if repository.info is not None:
        return decode_config(repository.info.config)
    try:
        data = repository.storage.read(CONFIG_PATH)
    except ObjectNotFoundError:
        return {}
    return _decode_config_yaml(data)


def update_config(repository: Repository, change: ConfigChange) -> None:
    """Store what `change` makes of the configuration; it may be asked more than once."""
    if is_v1(repository):
        v1.update_config(
            repository.storage,
            lambda data: encode_config_yaml(change(_decode_config_yaml(data or b""))),
        )
        return

    def edit(info: RepoInfo) -> edits.Edited:
        before = decode_config(info.config)
        after = change(dict(before))
        # The same configuration in other bytes is no change.
        config = info.config if after == before and info.config else encode_flexbuffers(after)
        return edits.set_config(info, config)

    update_repo(repository.storage, edit)


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
