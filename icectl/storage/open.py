"""Open the storage for a location and the user's options.

A location is a path, `file://PATH`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` (also `gcs://`),
`az://CONTAINER/PREFIX`, `https://HOST/PATH` (read-only) or `memory://NAME`. Credentials are never
options: the cloud libraries read them from the standard variables and files.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from icectl.errors import UsageError
from icectl.model.redaction import is_secret
from icectl.storage.contract import Storage

logger = logging.getLogger(__name__)

SCHEMES = ("file", "s3", "gs", "gcs", "az", "https", "http", "memory")

STORAGE_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "file": ("follow_links",),
    "memory": (),
    "s3": (
        *("endpoint_url", "region", "profile", "anonymous", "force_path_style"),
        *("legacy_rooted_keys", "driver"),
    ),
    "gs": ("endpoint_url", "anonymous", "credentials_file", "driver"),
    "az": ("account", "endpoint_url", "anonymous"),
    "https": (),
    "http": (),
}
"""The options of each storage: the KEY of `--storage-option KEY=VALUE`."""

DRIVERS = ("obstore", "fsspec")
DEFAULT_DRIVER = "obstore"

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9._:-]+")
"""The name of a bucket, or the ARN of an access point."""


def open_storage(location: str, options: Mapping[str, str] | None = None) -> Storage:
    """Return the storage at `location` without connecting to it."""
    storage = _open_storage(location, options or {})
    logger.info("storage: %s", storage.location)
    return storage


def _open_storage(location: str, options: Mapping[str, str]) -> Storage:
    scheme, rest = split_location(location)
    _check_options(scheme, options)
    if scheme == "file":
        from icectl.storage.local import LocalStorage

        return LocalStorage(rest, follow_links=_flag("follow_links", options))
    if scheme == "memory":
        from icectl.storage.memory import MemoryStorage

        return MemoryStorage(rest)
    bucket, prefix = split_bucket(scheme, rest)
    if scheme in ("https", "http"):
        return _open_web_storage(scheme, bucket, prefix)
    from icectl.storage.object_store import Access

    access = Access(_endpoint_url(options), anonymous=_flag("anonymous", options))
    # The official client drops empty components, except on S3.
    parts = "/".join(filter(None, prefix.split("/")))
    if scheme == "az":
        from icectl.storage.azure import AzureStorage

        return AzureStorage(bucket, parts, access, account=options.get("account"))
    if scheme == "s3":
        from icectl.storage.s3 import S3Storage

        # A leading `/` is part of the keys, as in the official client.
        prefix = prefix.rstrip("/")
        rooted = _flag("legacy_rooted_keys", options) if "legacy_rooted_keys" in options else None
        if prefix and rooted:
            raise UsageError(
                "the storage option legacy_rooted_keys applies only to the root of a bucket",
                hint=f"write s3://{bucket}, or omit the option",
            )
        storage = S3Storage(
            bucket,
            prefix,
            access,
            region=options.get("region"),
            profile=options.get("profile"),
            force_path_style=_flag("force_path_style", options),
            legacy_rooted_keys=rooted,
        )
        if _wants_fsspec(options) or not storage.has_plain_keys:
            return storage
        from icectl.storage.obstore_s3 import ObstoreS3

        return ObstoreS3(storage)
    from icectl.storage.gcs import GcsStorage

    google = GcsStorage(bucket, parts, access, credentials_file=options.get("credentials_file"))
    if _wants_fsspec(options):
        return google
    from icectl.storage.obstore_gcs import ObstoreGcs

    return ObstoreGcs(google)


def _open_web_storage(scheme: str, host: str, path: str) -> Storage:
    if "?" in path or "#" in path:
        # Do not repeat it: it may be a signature.
        raise UsageError(
            "the location must not contain a query or a fragment",
            hint=f"write {scheme}://HOST/PATH",
        )
    from urllib.parse import unquote

    from icectl.storage.web import WebStorage

    return WebStorage(scheme, host, "/".join(filter(None, unquote(path).split("/"))))


def without_password(url: str) -> str:
    """Return the URL; raise `UsageError` if it contains a user name or a password."""
    if is_secret("", url):
        raise UsageError(
            "the location contains a user name or a password",
            hint="set credentials in the standard variables or files",
        )
    return url


def split_location(location: str) -> tuple[str, str]:
    """Split a location into its scheme, `gs` for both names of that, and the rest."""
    match = _URL.fullmatch(location)
    if match is None:
        if not location:
            raise UsageError("the location is empty", hint="give a path or a URL")
        return "file", _check_characters("file", location)
    scheme, rest = match[1].lower(), match[2]
    if scheme not in SCHEMES:
        raise UsageError(
            f"{scheme}:// is not a supported storage",
            hint="use a path, file://, s3://, gs://, az://, https:// or memory://",
        )
    if scheme == "file":
        from urllib.parse import unquote

        # File names need not be UTF-8.
        rest = unquote(rest.removeprefix("localhost"), errors="surrogateescape")
        if not rest.startswith("/"):
            raise UsageError(
                f"{location} is not an absolute path", hint="write file:///PATH, or just the path"
            )
    if not rest:
        raise UsageError(f"{location} has no name after ://", hint=f"write {scheme}://NAME")
    return "gs" if scheme == "gcs" else scheme, _check_characters(scheme, rest)


def _check_characters(scheme: str, rest: str) -> str:
    """Return the text; raise `UsageError` if the storage does not allow such names."""
    try:
        rest.encode(errors="surrogateescape" if scheme == "file" else "strict")
    except UnicodeEncodeError:
        raise UsageError(f"the location {rest!r} is not valid UTF-8") from None
    if "\0" in rest:
        raise UsageError(f"the location {rest!r} contains a null character")
    return rest


def split_bucket(scheme: str, rest: str) -> tuple[str, str]:
    """Split the rest of a location into bucket, container or host, and prefix."""
    bucket, _, prefix = rest.partition("/")
    if "@" in bucket:
        # No bucket can have such a name; the message must not repeat a secret.
        raise UsageError(
            "the location contains a user name or a password",
            hint="set credentials in the standard variables or files",
        )
    if not bucket:
        raise UsageError(f"{scheme}://{rest} has no bucket", hint=f"write {scheme}://BUCKET/PREFIX")
    if not _BUCKET.fullmatch(bucket):
        raise UsageError(
            f"{bucket!r} is not a valid bucket name", hint=f"write {scheme}://BUCKET/PREFIX"
        )
    return bucket, prefix


def _check_options(scheme: str, options: Mapping[str, str]) -> None:
    known = STORAGE_OPTIONS[scheme]
    for key in options:
        if key not in known:
            # Only the key: the message must not repeat the value of a misplaced credential.
            raise UsageError(
                f"unknown storage option {key}",
                hint=f"use one of {', '.join(known)}; set credentials in the standard variables"
                " or files"
                if known
                else "omit the option; this storage has none",
            )


def _flag(key: str, options: Mapping[str, str]) -> bool:
    value = options.get(key, "false").lower()
    if value not in ("true", "false", "1", "0"):
        raise UsageError(f"the storage option {key} must be true or false, not {options[key]!r}")
    return value in ("true", "1")


def _wants_fsspec(options: Mapping[str, str]) -> bool:
    driver = options.get("driver", DEFAULT_DRIVER)
    if driver not in DRIVERS:
        raise UsageError(f"{driver!r} is not a driver", hint=f"use one of {', '.join(DRIVERS)}")
    return driver == "fsspec"


def _endpoint_url(options: Mapping[str, str]) -> str | None:
    url = options.get("endpoint_url")
    if url is None:
        return None
    return check_endpoint_url(url, "the storage option endpoint_url").rstrip("/")


def check_endpoint_url(url: str, origin: str) -> str:
    """Return the URL; raise `UsageError`, naming its `origin`, if it is not a valid endpoint."""
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise UsageError(
            f"{origin} must not contain a user name or a password",
            hint="set credentials in the standard variables or files",
        )
    if "?" in url or "#" in url:
        # Do not repeat it: it may be a signature or a token.
        raise UsageError(
            f"{origin} must not contain a query or a fragment",
            hint="write http://HOST:PORT or https://HOST; set credentials in the standard variables"
            " or files",
        )
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(
            f"{origin} is not an http(s) URL: {url}", hint="write http://HOST:PORT or https://HOST"
        )
    return url


def is_private_connection(url: str) -> bool:
    """Return whether nobody can eavesdrop on the connection: https, or this machine."""
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "https" or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
