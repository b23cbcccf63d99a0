"""Google Cloud Storage, with the session and credentials of gcsfs.

Conditional writes compare generations. This module sends the requests of the JSON API itself,
because the methods of gcsfs retry on their own and hide the status of a response.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from icectl.errors import RefusedError, Remedy, StorageError
from icectl.storage.contract import Version, VersionedBytes
from icectl.storage.fsspec_driver import AnsweredPage, FsspecStore
from icectl.storage.object_store import ANY_VERSION, Access, ObjectHead, Postponed
from icectl.storage.open import is_private_connection
from icectl.storage.paths import check_size
from icectl.storage.retry import CONNECT_TIMEOUT, READ_TIMEOUT, RequestFailure, reason_of
from icectl.storage.times import microseconds, microseconds_of_http_date

logger = logging.getLogger(__name__)


class GcsStorage(FsspecStore):
    scheme = "gs"
    permission_hint = Remedy("check-google-credentials")
    deletes_per_request = 1
    deletes_in_flight = 64
    impossible_version = Version("1")

    def __init__(
        self, bucket: str, prefix: str, access: Access, *, credentials_file: str | None
    ) -> None:
        super().__init__(bucket, prefix, access)
        self.credentials_file = credentials_file

    def _connect(self) -> Any:
        # The default class of gcsfs adds gRPC, which hangs on servers other than Google's.
        from gcsfs.core import GCSFileSystem

        if self.credentials_file and not self.access.anonymous:
            check_credentials_file(self.credentials_file)
        try:
            filesystem = GCSFileSystem(
                token="anon" if self.access.anonymous else self.credentials_file,
                endpoint_url=self.access.endpoint_url,
                use_listings_cache=False,
                skip_instance_cache=True,
            )
        except Exception as error:
            raise StorageError(
                f"the Google credentials cannot be used ({type(error).__name__})",
                hint=self.permission_hint,
            ) from None
        if filesystem.credentials.credentials is not None:
            refuse_plain_http(filesystem._location)
        return filesystem

    async def _call(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str],
        *,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
        accept: Callable[[int], None] | None = None,
    ) -> tuple[Mapping[str, str], bytes]:
        import aiohttp

        filesystem = self._client
        began = time.monotonic()
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT, sock_read=READ_TIMEOUT
        )
        try:
            await filesystem._set_session()
            async with filesystem.session.request(
                method,
                f"{filesystem._location}{path}",
                params=parameters,
                headers=filesystem._get_headers(headers),
                data=data,
                timeout=timeout,
            ) as response:
                check_size(path, response.content_length or 0)
                if accept is not None and response.status < 300:
                    accept(response.content_length or 0)
                body = await response.read()
        except (StorageError, Postponed):
            raise
        except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError) as error:
            connecting = not isinstance(error, aiohttp.SocketTimeoutError)
            reason = reason_of(getattr(error, "os_error", error))
            raise RequestFailure(
                None, type(error).__name__, reason, unreachable=connecting
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise RequestFailure(None, type(error).__name__, reason_of(error)) from error
        except Exception as error:
            # google.auth and gcsfs raise many types of exceptions for invalid credentials.
            raise RequestFailure(401, f"credentials failed: {type(error).__name__}") from error
        finally:
            logger.debug("%s %s: %.0f ms", method, path, (time.monotonic() - began) * 1000)
        if response.status >= 400:
            raise _refusal(response.status, body)
        return response.headers, body

    @property
    def _objects(self) -> str:
        return f"/storage/v1/b/{quote(self._bucket, safe='')}/o"

    def _object(self, key: str) -> str:
        return f"{self._objects}/{quote(key, safe='')}"

    def _get_object(
        self, key: str, span: tuple[int, int] | None, accept: Callable[[int], None] | None
    ) -> VersionedBytes:
        headers, body = self._await(
            self._call(
                "GET",
                self._object(key),
                {"alt": "media"},
                headers={"Range": f"bytes={span[0]}-{span[1] - 1}"} if span else None,
                accept=accept,
            )
        )
        version = Version(headers["x-goog-generation"])
        return VersionedBytes(body, version, microseconds_of_http_date(headers.get("Date")))

    def _head_object(self, key: str) -> ObjectHead:
        _, body = self._await(self._call("GET", self._object(key), {}))
        found = json.loads(body)
        return ObjectHead(
            int(found["size"]),
            microseconds(datetime.fromisoformat(found["timeCreated"])),
            Version(found["generation"]),
            found.get("metadata", {}),
        )

    def _put_object(
        self, key: str, data: bytes, expected: Version | None, metadata: Mapping[str, str]
    ) -> Version:
        boundary = uuid4().hex
        description = json.dumps({"name": key, "metadata": dict(metadata)})
        body = (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n"
            f"{description}\r\n"
            f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
        ).encode() + data
        condition = {"ifGenerationMatch": "0" if expected is None else expected.token}
        if expected == ANY_VERSION:
            condition = {}
        _, answer = self._await(
            self._call(
                "POST",
                f"/upload{self._objects}",
                {"uploadType": "multipart", **condition},
                headers={"Content-Type": f'multipart/related; boundary="{boundary}"'},
                data=body + f"\r\n--{boundary}--\r\n".encode(),
            )
        )
        return Version(json.loads(answer)["generation"])

    def _delete_objects(self, keys: Seq[str]) -> Mapping[str, RequestFailure]:
        failures = {}
        for key in keys:
            try:
                self._await(self._call("DELETE", self._object(key), {}))
            except RequestFailure as failure:
                if failure.status != 404 or failure.code == "NoSuchBucket":
                    failures[key] = failure
        return failures

    async def _list_page(
        self, beginning: str, shard: tuple[str, str | None], token: str | None, *, flat: bool
    ) -> AnsweredPage:
        after, through = shard
        parameters = {
            "prefix": beginning,
            "fields": "items(name,size,timeCreated),prefixes,nextPageToken",
        }
        if after:
            parameters["startOffset"] = after
        if through is not None:
            # endOffset is exclusive; the caller drops names beyond the shard.
            parameters["endOffset"] = f"{through}!"
        if flat:
            parameters["delimiter"] = "/"
        if token:
            parameters["pageToken"] = token
        _, body = await self._call("GET", self._objects, parameters)
        page = json.loads(body)
        return AnsweredPage(
            [
                (
                    item["name"],
                    int(item["size"]),
                    microseconds(datetime.fromisoformat(item["timeCreated"])),
                )
                for item in page.get("items", ())
            ],
            page.get("prefixes", ()),
            page.get("nextPageToken"),
        )

    def _read_clock(self) -> int:
        headers, _ = self._await(self._call("GET", self._objects, {"maxResults": "1"}))
        return microseconds_of_http_date(headers.get("Date"))


def refuse_plain_http(endpoint_url: str) -> None:
    """Raise `RefusedError` if others could see the token, which anyone could then use."""
    if not is_private_connection(endpoint_url):
        raise RefusedError(
            "the endpoint of Google Cloud Storage is a plain http URL on another machine;"
            " credentials would be sent unencrypted",
            hint=Remedy("use-https-or-anonymous"),
        )


def check_credentials_file(name: str) -> None:
    """Raise `StorageError` for an invalid file, which the library would silently skip.

    The library then tries all other sources of credentials, which takes a long time.
    """
    try:
        json.loads(Path(name).read_bytes())
    except OSError as error:
        reason = f"cannot be read: {reason_of(error)}"
    except ValueError:
        reason = "is not JSON"
    else:
        return
    raise StorageError(
        f"the Google credentials file {name} {reason}",
        hint=Remedy("check-google-credentials-file"),
    )


def _refusal(status: int, body: bytes) -> RequestFailure:
    message = ""
    try:
        answer = json.loads(body)["error"]
        message = answer["message"] if isinstance(answer, dict) else str(answer)
    except (ValueError, KeyError, TypeError):
        message = " ".join(body[:200].decode("utf-8", "replace").split())
    if status == 404 and "bucket does not exist" in message:
        return RequestFailure(status, "NoSuchBucket", message)
    return RequestFailure(status, HTTPStatus(status).phrase, message)
