"""The settings of AWS: endpoint, region and credentials from the standard variables and files.

botocore reads them, except in the common case of keys in the environment and no config file: the
import of botocore alone takes longer than most commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from icectl.errors import Remedy, StorageError
from icectl.storage.cloud_variables import AWS_ENDPOINTS, cloud_variables
from icectl.storage.retry import RequestFailure

DEFAULT_REGION = "us-east-1"
REFRESH_AFTER = timedelta(minutes=5)

_REGION = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


@dataclass(frozen=True, slots=True)
class AwsSettings:
    region: str
    endpoint_url: str | None
    """None for the endpoint of AWS in the region."""
    path_style: bool
    ca_bundle: str | None
    credentials: Callable[[], Mapping[str, Any]] | None
    """None for requests without a signature."""
    host_prefix: str = "s3"


def find_aws_settings(
    *, region: str | None, endpoint_url: str | None, profile: str | None, anonymous: bool
) -> AwsSettings:
    environ = cloud_variables()
    has_keys = anonymous or all(environ.get(name) for name in _KEYS)
    named = profile or environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE")
    if has_keys and not named and _is_empty(environ.get("AWS_CONFIG_FILE") or "~/.aws/config"):
        found = AwsSettings(
            region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "",
            endpoint_url or _endpoint_of(environ),
            False,
            environ.get("AWS_CA_BUNDLE"),
            None if anonymous else _keys_of_environment,
            _host_prefix(
                _is_true(environ.get("AWS_USE_FIPS_ENDPOINT")),
                _is_true(environ.get("AWS_USE_DUALSTACK_ENDPOINT")),
            ),
        )
    else:
        found = _ask_botocore(region, endpoint_url, profile, anonymous)
    return _checked(found)


def _is_empty(file: str) -> bool:
    try:
        return not Path(file).expanduser().read_bytes().strip()
    except (OSError, RuntimeError):
        return True


def _is_true(value: str | None) -> bool:
    return (value or "").lower() == "true"


def _endpoint_of(environ: Mapping[str, str]) -> str | None:
    if _is_true(environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")):
        return None
    return next((environ[name] for name in AWS_ENDPOINTS if environ.get(name)), None)


def _host_prefix(fips: bool, dualstack: bool) -> str:
    return f"s3{'-fips' if fips else ''}{'.dualstack' if dualstack else ''}"


def _keys_of_environment() -> Mapping[str, Any]:
    environ = cloud_variables()
    key, secret = (environ[name] for name in _KEYS)
    token = environ.get("AWS_SESSION_TOKEN") or environ.get("AWS_SECURITY_TOKEN")
    return _credential(key, secret, token)


def _credential(key: str, secret: str, token: str | None) -> Mapping[str, Any]:
    return {
        "access_key_id": key,
        "secret_access_key": secret,
        "token": token or None,
        "expires_at": datetime.now(UTC) + REFRESH_AFTER,
    }


def _ask_botocore(
    region: str | None, endpoint_url: str | None, profile: str | None, anonymous: bool
) -> AwsSettings:
    from botocore.configprovider import ConfiguredEndpointProvider
    from botocore.session import Session

    from icectl.storage.s3 import failure_of

    try:
        session = Session(profile=profile)
        section = session.get_scoped_config()
        if endpoint_url is None and not session.get_config_variable(
            "ignore_configured_endpoint_urls"
        ):
            endpoint_url = ConfiguredEndpointProvider(
                full_config=session.full_config, scoped_config=section, client_name="s3"
            ).provide()
        s3 = section.get("s3")
        options = s3 if isinstance(s3, dict) else {}
        credentials = None
        if not anonymous:
            found = session.get_credentials()
            if found is None:
                raise RequestFailure(401, "no credentials found")
            credentials = BotocoreCredentials(found)
            credentials()
        return AwsSettings(
            region
            or cloud_variables().get("AWS_REGION")
            or session.get_config_variable("region")
            or options.get("region")
            or "",
            endpoint_url,
            options.get("addressing_style") == "path",
            session.get_config_variable("ca_bundle"),
            credentials,
            _host_prefix(
                bool(session.get_config_variable("use_fips_endpoint")),
                bool(session.get_config_variable("use_dualstack_endpoint"))
                or _is_true(str(options.get("use_dualstack_endpoint", ""))),
            ),
        )
    except (RequestFailure, StorageError):
        raise
    except Exception as error:
        raise failure_of(error) from None


class BotocoreCredentials:
    """Keys of botocore, which refreshes those of roles and single sign-on."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def __call__(self) -> Mapping[str, Any]:
        try:
            keys = self._credentials.get_frozen_credentials()
        except Exception as error:
            # Only the type: the message may contain a secret.
            raise RuntimeError(f"credentials failed: {type(error).__name__}") from None
        return _credential(keys.access_key, keys.secret_key, keys.token)


def _checked(found: AwsSettings) -> AwsSettings:
    region = found.region or DEFAULT_REGION
    if not _REGION.fullmatch(region):
        raise invalid_region()
    if found.endpoint_url is not None:
        try:
            parts = urlsplit(found.endpoint_url)
            valid = parts.scheme in ("http", "https") and parts.hostname
        except ValueError:
            valid = None
        if not valid:
            raise unusable_settings("ValueError")
    return replace(found, region=region)


def invalid_region() -> StorageError:
    return StorageError("the AWS region is not a valid name", hint=Remedy("check-aws-region"))


def unusable_settings(reason: str) -> StorageError:
    return StorageError(
        f"the AWS settings cannot be used ({reason})",
        hint="check the AWS_ variables, ~/.aws/config and ~/.aws/credentials",
    )
