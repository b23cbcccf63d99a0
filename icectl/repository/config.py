"""The stored configuration: FlexBuffers inside `repo` (V2), `config.yaml` before."""

from __future__ import annotations

from icectl.errors import FormatError, ObjectNotFoundError
from icectl.format.values import decode_flexbuffers
from icectl.repository.layout import CONFIG_PATH
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.repository import Repository


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
    return decode_config_file(data)


def decode_config(data: bytes | None) -> dict[str, object]:
    config = decode_flexbuffers(data) if data else {}
    if not isinstance(config, dict):
        raise FormatError("the configuration is not a mapping", path=REPO_PATH)
    return config


def decode_config_file(data: bytes) -> dict[str, object]:
    from icectl.format.config import decode_config_yaml

    try:
        return decode_config_yaml(data)
    except FormatError as error:
        raise error.at(CONFIG_PATH) from None
