"""A small Google Cloud Storage: one store behind the JSON API (gcsfs) and the XML API.

It honours generation preconditions, pages its listings and refuses the bucket `forbidden`.
`serve(port)` runs it on loopback, in a process of its own.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.parser import BytesParser
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from aiohttp import web

from tests.servers.processes import free_port, running, wait_for_port

BUCKET = "icectl-tests"
FORBIDDEN_BUCKET = "forbidden"
PRIVATE_BUCKET = "private"
"""Wants the token that `/token` gives to a service account."""
ROOT_BUCKET = "root"
"""For one repository in its root."""
TOKEN = "fake-access-token"
ACCOUNT = "tests@example.com"


@dataclass(frozen=True)
class GcsServer:
    url: str
    bucket: str = BUCKET

    @property
    def environment(self) -> dict[str, str]:
        return {
            "STORAGE_EMULATOR_HOST": self.url,
            "NO_GCE_CHECK": "true",
            "GCE_METADATA_HOST": "127.0.0.1:1",
            "GOOGLE_APPLICATION_CREDENTIALS": "",
        }

    def official_storage(self, prefix: str) -> Any:
        """The official package's storage on this server; its key needs no token server."""
        import icechunk

        key = {
            "private_key": "x",
            "private_key_id": "x",
            "client_email": "x",
            "disable_oauth": True,
            "gcs_base_url": self.url,
        }
        return icechunk.gcs_storage(
            bucket=self.bucket,
            prefix=prefix,
            service_account_key=json.dumps(key),
            config={"google_base_url": self.url, "allow_http": "true"},
        )

    def write_service_account(self, directory: Path, token_uri: str | None = None) -> Path:
        """A key file whose token comes from this server, unless the client signs it itself."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        key = rsa.generate_private_key(65537, 2048).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        file = directory / "service-account.json"
        account = {
            "type": "service_account",
            "project_id": "tests",
            "private_key_id": "1",
            "private_key": key.decode(),
            "client_email": ACCOUNT,
            "token_uri": token_uri or f"{self.url}/token",
        }
        file.write_text(json.dumps(account))
        return file


@contextlib.contextmanager
def fake_gcs(directory: Path) -> Iterator[GcsServer]:
    port = free_port()
    project = Path(__file__).parents[2]
    command = [sys.executable, "-c", _SERVE.format(project=str(project), port=port)]
    with running(command, directory) as process:
        wait_for_port(process, port)
        yield GcsServer(f"http://127.0.0.1:{port}")


_SERVE = "import sys; sys.path.insert(0, {project!r}); from tests.servers.gcs import serve; serve({port})"


@dataclass
class StoredObject:
    data: bytes
    generation: int
    metadata: dict[str, str]
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def etag(self) -> str:
        return hashlib.md5(self.data).hexdigest()

    def headers(self) -> dict[str, str]:
        digest = base64.b64encode(hashlib.md5(self.data).digest()).decode()
        return {
            "x-goog-generation": str(self.generation),
            "x-goog-metageneration": "1",
            "x-goog-hash": f"md5={digest}",
            "x-goog-stored-content-length": str(len(self.data)),
            "ETag": f'"{self.etag}"',
            "Last-Modified": self.created.strftime("%a, %d %b %Y %H:%M:%S GMT"),
            **{f"x-goog-meta-{key}": value for key, value in self.metadata.items()},
        }

    def resource(self, bucket: str, name: str) -> dict[str, object]:
        moment = self.created.isoformat().replace("+00:00", "Z")
        return {
            "kind": "storage#object",
            "bucket": bucket,
            "name": name,
            "generation": str(self.generation),
            "size": str(len(self.data)),
            "timeCreated": moment,
            "updated": moment,
            "metadata": self.metadata,
        }


class FakeGcs:
    def __init__(self) -> None:
        self.buckets: dict[str, dict[str, StoredObject]] = {}
        for bucket in (BUCKET, FORBIDDEN_BUCKET, PRIVATE_BUCKET, ROOT_BUCKET):
            self.buckets[bucket] = {}
        self.generation = 1_000_000

    def objects(self, request: web.Request) -> dict[str, StoredObject]:
        bucket = request.match_info["bucket"]
        if bucket == FORBIDDEN_BUCKET:
            raise _error(web.HTTPForbidden, 403, "caller does not have storage access")
        if bucket == PRIVATE_BUCKET and not is_allowed(request.headers.get("Authorization", "")):
            raise _error(web.HTTPUnauthorized, 401, "Anonymous caller does not have access")
        if bucket not in self.buckets:
            raise _error(web.HTTPNotFound, 404, "The specified bucket does not exist.")
        return self.buckets[bucket]

    def found(self, request: web.Request) -> StoredObject:
        name = request.match_info["name"]
        item = self.objects(request).get(name)
        if item is None:
            raise _error(web.HTTPNotFound, 404, f"No such object: {name}")
        return item

    def store(
        self,
        request: web.Request,
        name: str,
        data: bytes,
        metadata: dict[str, str],
        match: str | None,
    ) -> StoredObject:
        objects = self.objects(request)
        current = objects[name].generation if name in objects else 0
        if match is not None and int(match) != current:
            raise _error(web.HTTPPreconditionFailed, 412, "a precondition did not hold")
        self.generation += 1
        objects[name] = StoredObject(data, self.generation, metadata)
        return objects[name]

    async def upload(self, request: web.Request) -> web.Response:
        body = await request.read()
        head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
        parts = BytesParser().parsebytes(head + body).get_payload()
        description = json.loads(parts[0].get_payload(decode=True))
        # The parser may touch line ends, so the bytes are cut out of the body itself.
        boundary = b"--" + request.headers["Content-Type"].split("boundary=")[1].strip('"').encode()
        data = body.split(boundary, 2)[2].rsplit(b"\r\n" + boundary, 1)[0].split(b"\r\n\r\n", 1)[1]
        name = description["name"]
        match = request.query.get("ifGenerationMatch")
        item = self.store(request, name, data, description.get("metadata", {}), match)
        return web.json_response(item.resource(request.match_info["bucket"], name))

    async def put(self, request: web.Request) -> web.Response:
        prefix = "x-goog-meta-"
        headers = request.headers
        metadata = {
            k.lower()[len(prefix) :]: v for k, v in headers.items() if k.lower().startswith(prefix)
        }
        match = headers.get("x-goog-if-generation-match")
        item = self.store(
            request, request.match_info["name"], await request.read(), metadata, match
        )
        return web.Response(headers=item.headers())

    async def get(self, request: web.Request) -> web.Response:
        item = self.found(request)
        if "/storage/v1/" in request.path and request.query.get("alt") != "media":
            return web.json_response(
                item.resource(request.match_info["bucket"], request.match_info["name"])
            )
        span = request.headers.get("Range")
        if span is None:
            # aiohttp omits the length of an empty object.
            headers = {**item.headers(), "Content-Length": str(len(item.data))}
            return web.Response(body=item.data, headers=headers)
        first, _, last = span.removeprefix("bytes=").partition("-")
        size = len(item.data)
        start = int(first) if first else size - int(last)
        stop = min(int(last) + 1, size) if first and last else size
        if start >= size:
            raise _error(web.HTTPRequestRangeNotSatisfiable, 416, "range")
        headers = {**item.headers(), "Content-Range": f"bytes {start}-{stop - 1}/{size}"}
        return web.Response(status=206, body=item.data[start:stop], headers=headers)

    async def delete(self, request: web.Request) -> web.Response:
        self.found(request)
        if "undeletable" in request.match_info["name"]:
            raise _error(web.HTTPForbidden, 403, "the object is held")
        del self.objects(request)[request.match_info["name"]]
        return web.Response(status=204)

    def page(
        self, request: web.Request, token: str | None, limit: int
    ) -> tuple[list[str], list[str], str | None]:
        """Names, common prefixes and the name the next page begins behind."""
        query = request.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        names, prefixes = [], []
        for name in sorted(self.objects(request), key=str.encode):
            if not name.startswith(prefix) or name < query.get("startOffset", ""):
                continue
            if (end := query.get("endOffset")) and name >= end:
                continue
            rest = name[len(prefix) :]
            directory = (
                prefix + rest.split(delimiter)[0] + delimiter
                if delimiter and delimiter in rest
                else None
            )
            if token and (directory or name) <= token:
                continue
            if len(names) + len(prefixes) == limit:
                return names, prefixes, token_of(names, prefixes)
            if directory is None:
                names.append(name)
            elif directory not in prefixes:
                prefixes.append(directory)
        return names, prefixes, None

    async def list_json(self, request: web.Request) -> web.Response:
        objects, bucket = self.objects(request), request.match_info["bucket"]
        limit = int(request.query.get("maxResults", "1000"))
        names, prefixes, token = self.page(request, request.query.get("pageToken"), limit)
        answer: dict[str, object] = {
            "kind": "storage#objects",
            "items": [objects[name].resource(bucket, name) for name in names],
            "prefixes": prefixes,
        }
        if token:
            answer["nextPageToken"] = token
        return web.json_response(answer)

    async def list_xml(self, request: web.Request) -> web.Response:
        objects = self.objects(request)
        limit = int(request.query.get("max-keys", "1000"))
        token = request.query.get("continuation-token") or request.query.get("start-after")
        names, prefixes, following = self.page(request, token, limit)
        contents = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(objects[name].data)}</Size>"
            f"<LastModified>{objects[name].created.isoformat().replace('+00:00', 'Z')}</LastModified>"
            f'<ETag>"{objects[name].etag}"</ETag></Contents>'
            for name in names
        )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(p)}</Prefix></CommonPrefixes>" for p in prefixes
        )
        more = (
            f"<NextContinuationToken>{escape(following)}</NextContinuationToken>"
            if following
            else ""
        )
        return web.Response(
            content_type="application/xml",
            text=f"<ListBucketResult><IsTruncated>{'true' if following else 'false'}</IsTruncated>"
            f"{contents}{common}{more}</ListBucketResult>",
        )


def is_allowed(authorization: str) -> bool:
    """Whether it is the token of `/token`, or one that the service account signed itself.

    The signature is not checked.
    """
    token = authorization.removeprefix("Bearer ")
    if token == TOKEN:
        return True
    claims = token.split(".")[1:2]
    return any(
        json.loads(base64.urlsafe_b64decode(claim + "==")).get("iss") == ACCOUNT for claim in claims
    )


async def give_token(request: web.Request) -> web.Response:
    return web.json_response({"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})


def token_of(names: list[str], prefixes: list[str]) -> str:
    return max([*names, *prefixes])


def _error(
    kind: type[web.HTTPException], code: int, message: str, **arguments: object
) -> web.HTTPException:
    text = json.dumps({"error": {"code": code, "message": message}})
    return kind(text=text, content_type="application/json")


def serve(port: int) -> None:
    fake = FakeGcs()
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/upload/storage/v1/b/{bucket}/o", fake.upload)
    app.router.add_get("/storage/v1/b/{bucket}/o", fake.list_json)
    app.router.add_get("/storage/v1/b/{bucket}/o/{name:.+}", fake.get)
    app.router.add_delete("/storage/v1/b/{bucket}/o/{name:.+}", fake.delete)
    app.router.add_post("/token", give_token)
    app.router.add_get("/{bucket}", fake.list_xml)
    app.router.add_get("/{bucket}/", fake.list_xml)
    app.router.add_get("/{bucket}/{name:.+}", fake.get)
    app.router.add_put("/{bucket}/{name:.+}", fake.put)
    app.router.add_delete("/{bucket}/{name:.+}", fake.delete)
    web.run_app(app, host="127.0.0.1", port=port, print=None)
