"""S3 and compatible servers, with the client of s3fs.

Credentials, endpoint and region come from botocore's standard variables and files unless an
option overrides them. Requests use `call_s3`, because the file operations of s3fs drop conditions
(large writes) and errors (bulk deletes).

Official releases before 2.1 began every key with `/` if the prefix was empty
(https://github.com/earth-mover/icechunk/issues/2239). Newer releases do not; like icectl, they
detect such repositories by a few names that every repository has.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from functools import partial
from typing import Any

from icectl.errors import RefusedError, Remedy, StorageError
from icectl.storage.aws import AwsSettings, find_aws_settings, invalid_region, unusable_settings
from icectl.storage.contract import Version, VersionedBytes
from icectl.storage.fsspec_driver import AnsweredPage, FsspecStore
from icectl.storage.object_store import ANY_VERSION, Access, ObjectHead, Postponed
from icectl.storage.paths import check_size
from icectl.storage.retry import (
    CONNECT_TIMEOUT,
    READ_TIMEOUT,
    RequestFailure,
    reason_of,
    with_retries,
)
from icectl.storage.times import microseconds, microseconds_of_http_date

logger = logging.getLogger(__name__)

ANCHORS = ("repo", "refs/branch.main/ref.json", "refs/branch.main/ZZZZZZZZ.json")
"""Every repository has one of these: spec version 2, 1, and the alpha releases."""

NEEDED_IN_RESPONSE = {
    "head_object": ("ETag", "LastModified"),
    "get_object": ("ETag",),
    "put_object": ("ETag",),
}
"""Other servers than those of S3 may answer with success, but without these headers."""


class S3Storage(FsspecStore):
    scheme = "s3"
    permission_hint = Remedy("check-aws-credentials")
    deletes_per_request = 1000
    deletes_in_flight = 8
    impossible_version = Version('"00000000000000000000000000000000"')

    def __init__(
        self,
        bucket: str,
        prefix: str,
        access: Access,
        *,
        region: str | None = None,
        profile: str | None = None,
        force_path_style: bool = False,
        legacy_rooted_keys: bool | None = None,
    ) -> None:
        """`legacy_rooted_keys`: whether keys in a bucket's root begin with `/`; None detects it."""
        super().__init__(bucket, prefix, access)
        self._root: str | None = None
        if prefix:
            self._root = f"{prefix}/"
        elif legacy_rooted_keys is not None:
            self._root = "/" if legacy_rooted_keys else ""
        self.region = region
        self.profile = profile
        self.force_path_style = force_path_style

    def find_settings(self) -> AwsSettings:
        return find_aws_settings(
            region=self.region,
            endpoint_url=self.access.endpoint_url,
            profile=self.profile,
            anonymous=self.access.anonymous,
        )

    @property
    def server(self) -> str:
        """The endpoint, which may come from the profile or the environment."""
        try:
            return self.find_settings().endpoint_url or ""
        except RequestFailure:  # without credentials, which the first request reports
            return super().server

    @property
    def has_plain_keys(self) -> bool:
        """Whether no key has an empty component, and the bucket is an ordinary one.

        Access points and directory buckets have rules of their own.
        """
        if ":" in self._bucket or self._bucket.endswith("--x-s3"):
            return False
        if not self._prefix:
            return self._root == ""
        return self._prefix.isprintable() and {"", ".", ".."}.isdisjoint(self._prefix.split("/"))

    def listing_shards(self) -> int:
        # A directory bucket lists keys in no particular order and does not support StartAfter.
        return 1 if self._bucket.endswith("--x-s3") else super().listing_shards()

    def _find_root(self) -> str:
        if self._root is None:
            self._root = "/" if self._probe_root() else ""
        return self._root

    def _probe_root(self) -> bool:
        """Return whether the repository in the root of the bucket has keys that begin with `/`."""
        plain, rooted = (
            [self._submit(partial(self._find_etag, beginning + name)) for name in ANCHORS]
            for beginning in ("", "/")
        )
        # Some servers drop the `/`, so both keys refer to the same object.
        pairs = [(etag.result(), same.result()) for etag, same in zip(rooted, plain, strict=True)]
        if not any(etag for etag, same in pairs if etag != same):
            return False
        if any(same for _, same in pairs):
            raise RefusedError(
                f"{self.location} contains two repositories, one with keys that begin with / and "
                "one without",
                hint=Remedy("choose-rooted-keys"),
            )
        return True

    def _find_etag(self, key: str) -> str | None:
        try:
            return with_retries(lambda: self._head_object(key)).etag
        except RequestFailure as failure:
            # Some servers do not allow such keys. The next request reports any other cause.
            if failure.status in (400, 403, 404):
                return None
            raise self._error(failure, key) from None

    def _connect(self) -> Any:
        from s3fs import S3FileSystem

        config: dict[str, Any] = {
            "connect_timeout": CONNECT_TIMEOUT,
            "read_timeout": READ_TIMEOUT,
            "max_pool_connections": 64,
            # Some servers answer a range request with the checksum of the entire object.
            "response_checksum_validation": "when_required",
            "retries": {"total_max_attempts": 1, "mode": "standard"},
        }
        if self.force_path_style:
            config["s3"] = {"addressing_style": "path"}
        filesystem = S3FileSystem(
            anon=self.access.anonymous,
            endpoint_url=self.access.endpoint_url,
            profile=self.profile,
            client_kwargs={"region_name": self.region} if self.region else {},
            config_kwargs=config,
            use_listings_cache=False,
            skip_instance_cache=True,
        )
        # `with_retries` does the retries.
        filesystem.retries = 1
        return filesystem

    async def _call(self, method: str, **arguments: Any) -> Any:
        began = time.monotonic()
        try:
            response = await self._client._call_s3(method, Bucket=self._bucket, **arguments)
        except Exception as error:
            raise failure_of(error) from error
        finally:
            key = arguments.get("Key", arguments.get("Prefix", ""))
            logger.debug("%s %s: %.0f ms", method, key, (time.monotonic() - began) * 1000)
        for name in NEEDED_IN_RESPONSE.get(method, ()):
            if name not in response:
                raise RequestFailure(200, "InvalidResponse", f"without {name}")
        return response

    def _get_object(
        self, key: str, span: tuple[int, int] | None, accept: Callable[[int], None] | None
    ) -> VersionedBytes:
        return self._await(self._get(key, span, accept))

    async def _get(
        self, key: str, span: tuple[int, int] | None, accept: Callable[[int], None] | None
    ) -> VersionedBytes:
        arguments = {"Range": f"bytes={span[0]}-{span[1] - 1}"} if span else {}
        response = await self._call("get_object", Key=key, **arguments)
        try:
            async with response["Body"] as body:
                if span is None:
                    check_size(key, response["ContentLength"])
                if accept is not None:
                    accept(response["ContentLength"])
                data: bytes = await body.read()
        except (StorageError, Postponed):
            raise
        except Exception as error:
            raise failure_of(error) from error
        return VersionedBytes(data, Version(response["ETag"]), _date(response))

    def _head_object(self, key: str) -> ObjectHead:
        response = self._await(self._call("head_object", Key=key))
        return ObjectHead(
            response["ContentLength"],
            microseconds(response["LastModified"]),
            Version(response["ETag"]),
            response["Metadata"],
            response["ETag"],
        )

    def _put_object(
        self, key: str, data: bytes, expected: Version | None, metadata: Mapping[str, str]
    ) -> Version:
        condition = {"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected.token}
        if expected == ANY_VERSION:
            condition = {}
        response = self._await(
            self._call("put_object", Key=key, Body=data, Metadata=dict(metadata), **condition)
        )
        return Version(response["ETag"])

    def _delete_objects(self, keys: Seq[str]) -> Mapping[str, RequestFailure]:
        deletion = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        response = self._await(self._call("delete_objects", Delete=deletion))
        return {
            error["Key"]: _refused_delete(error.get("Code", ""), error.get("Message", ""))
            for error in response.get("Errors", ())
            if error.get("Code") != "NoSuchKey"
        }

    async def _list_page(
        self, beginning: str, shard: tuple[str, str | None], token: str | None, *, flat: bool
    ) -> AnsweredPage:
        after, through = shard
        arguments = {"Prefix": beginning}
        if after:
            arguments["StartAfter"] = after
        if flat:
            arguments["Delimiter"] = "/"
        if token:
            arguments["ContinuationToken"] = token
        response = await self._call("list_objects_v2", **arguments)
        objects = [
            (item["Key"], item["Size"], microseconds(item["LastModified"]))
            for item in response.get("Contents", ())
        ]
        # Keys are listed in order, so a key beyond the shard ends it.
        beyond = through is not None and bool(objects) and objects[-1][0] > through
        return AnsweredPage(
            objects,
            [item["Prefix"] for item in response.get("CommonPrefixes", ())],
            None if beyond else response.get("NextContinuationToken"),
        )

    def _read_clock(self) -> int:
        return _date(
            self._await(self._call("list_objects_v2", Prefix=self._find_root(), MaxKeys=1))
        )


def _date(response: Mapping[str, Any]) -> int:
    return microseconds_of_http_date(response["ResponseMetadata"]["HTTPHeaders"].get("date"))


def _refused_delete(code: str, message: str) -> RequestFailure:
    return RequestFailure(403 if code == "AccessDenied" else 400, code, message)


def failure_of(error: BaseException) -> RequestFailure:
    """Convert an exception of the library; raise `StorageError` for unusable settings."""
    from botocore import exceptions as botocore

    # s3fs translates an error response into an OSError and keeps the response in its cause.
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
    if isinstance(response, dict) and "Error" in response:
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = str(response["Error"].get("Code", status))
        return RequestFailure(status, code, str(response["Error"].get("Message", "")))
    if isinstance(
        error,
        (
            botocore.EndpointConnectionError,
            botocore.ConnectTimeoutError,
            botocore.ProxyConnectionError,
        ),
    ):
        return RequestFailure(None, "unreachable", _reason(error), unreachable=True)
    if isinstance(error, (botocore.NoCredentialsError, botocore.CredentialRetrievalError)):
        return RequestFailure(401, "no credentials found")
    if isinstance(error, botocore.ProfileNotFound):
        raise StorageError(
            "the AWS configuration files do not contain the profile",
            hint=Remedy("check-aws-profile"),
        ) from None
    if isinstance(error, botocore.ConfigParseError):
        # The library's message repeats the lines that it cannot parse, including the keys.
        raise StorageError(
            "the AWS credentials or config file cannot be parsed",
            hint="check ~/.aws/credentials and ~/.aws/config, or the files in "
            "AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE",
        ) from None
    if isinstance(error, botocore.InvalidRegionError):
        raise invalid_region() from None
    if isinstance(error, botocore.ParamValidationError):
        return RequestFailure(400, "invalid bucket or object name")
    in_transit = (
        botocore.HTTPClientError,
        botocore.ConnectionError,
        botocore.IncompleteReadError,
        botocore.ChecksumError,
        botocore.FlexibleChecksumError,
    )
    # botocore raises ValueError for an endpoint that is not a URL.
    if isinstance(error, (botocore.BotoCoreError, ValueError)) and not isinstance(
        error, in_transit
    ):
        # Only the type: the library's message may repeat the settings.
        raise unusable_settings(type(error).__name__) from None
    return RequestFailure(None, type(error).__name__, _reason(error))


def _reason(error: BaseException) -> str:
    """Describe the innermost cause: the outer ones repeat the URL of the request."""
    nested = getattr(error, "kwargs", {}).get("error") or error.__cause__
    if nested is None:
        return reason_of(error) if isinstance(error, OSError) else type(error).__name__
    return reason_of(getattr(nested, "os_error", None) or nested)
