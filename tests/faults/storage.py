"""Storages that misbehave on purpose, around a real one.

Every request of the contract passes `before` and `after` a hook with its number, its method
and its path; a bulk write or delete passes them for each path. What a hook raises is what the caller
sees: `before` nothing has happened yet, `after` it has and only the answer is lost. `alter`
changes the bytes that are read.

    FaultyStorage(inner, before=fail_once("put_if_match"))
    FaultyStorage(inner, before=fail_for_good("read", "manifests/"))
    FaultyStorage(inner, after=fail_once("put_if_match", "repo"))      a lost response
    FaultyStorage(inner, before=kill_at(7))                            kill -9 before request 7
    FaultyStorage(inner, alter=flip_bit("manifests/", bit=1234))
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from icectl.errors import StorageError
from icectl.storage.contract import (
    WHOLE_DIRECTORY,
    ListingShard,
    ObjectInfo,
    Outcome,
    Storage,
    Version,
    VersionedBytes,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    number: int
    """Counted from 1."""
    method: str
    path: str


Hook = Callable[[Request], None]
Alter = Callable[[str, bytes], bytes]


class FaultyStorage(Storage):
    def __init__(
        self,
        inner: Storage,
        *,
        before: Hook | None = None,
        after: Hook | None = None,
        alter: Alter | None = None,
    ) -> None:
        self.inner = inner
        self.before, self.after, self.alter = before, after, alter
        self.requests: list[Request] = []

    def _do(self, method: str, path: str, action: Callable[[], T]) -> T:
        request = Request(len(self.requests) + 1, method, path)
        self.requests.append(request)
        if self.before:
            self.before(request)
        result = action()
        if self.after:
            self.after(request)
        return result

    def _altered(self, path: str, data: bytes) -> bytes:
        return self.alter(path, data) if self.alter else data

    @property
    def location(self) -> str:
        return self.inner.location

    def read(self, path: str) -> bytes:
        return self._altered(path, self._do("read", path, lambda: self.inner.read(path)))

    def read_versioned(self, path: str) -> VersionedBytes:
        found = self._do("read_versioned", path, lambda: self.inner.read_versioned(path))
        return replace(found, data=self._altered(path, found.data))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._do("read_range", path, lambda: self.inner.read_range(path, offset, length))

    def read_many(
        self, paths: Iterable[str], *, concurrency: int = 16
    ) -> Iterator[tuple[str, bytes | StorageError]]:
        for path in paths:
            try:
                yield path, self.read(path)
            except StorageError as error:
                yield path, error

    def info(self, path: str) -> ObjectInfo:
        return self._do("info", path, lambda: self.inner.info(path))

    def list(
        self,
        prefix: str,
        *,
        with_info: bool = True,
        starts_with: str = "",
        shard: ListingShard = WHOLE_DIRECTORY,
    ) -> Iterator[ObjectInfo]:
        return self._do(
            "list",
            prefix,
            lambda: self.inner.list(
                prefix, with_info=with_info, starts_with=starts_with, shard=shard
            ),
        )

    def list_directories(self, prefix: str) -> Iterator[str]:
        return self._do("list_directories", prefix, lambda: self.inner.list_directories(prefix))

    def _put(
        self,
        path: str,
        data: bytes,
        expected: Version | None,
        metadata: Mapping[str, str] | None,
    ) -> Version:
        return self._do(
            "put_if_absent" if expected is None else "put_if_match",
            path,
            lambda: self.inner._put(path, data, expected, metadata),
        )

    def write_many(
        self, items: Iterable[tuple[str, bytes]], *, concurrency: int = 16
    ) -> Iterator[Outcome]:
        for path, data in items:
            one = [(path, data)]
            yield from self._outcomes("write_many", path, partial(self.inner.write_many, one))

    def delete_many(self, paths: Iterable[str]) -> Iterator[Outcome]:
        for path in paths:
            yield from self._outcomes("delete_many", path, partial(self.inner.delete_many, [path]))

    def _outcomes(
        self, method: str, path: str, action: Callable[[], Iterator[Outcome]]
    ) -> Iterator[Outcome]:
        try:
            yield from self._do(method, path, lambda: list(action()))
        except StorageError as error:
            yield path, error

    def ensure_conditional_writes(self) -> None:
        self._do("ensure_conditional_writes", "", self.inner.ensure_conditional_writes)

    def read_clock(self) -> int:
        return self._do("read_clock", "", self.inner.read_clock)

    def methods(self) -> list[str]:
        return [request.method for request in self.requests]


def _matches(request: Request, method: str, path: str) -> bool:
    return request.method == method and request.path.startswith(path)


def fail_for_good(method: str, path: str = "", error: StorageError | None = None) -> Hook:
    def hook(request: Request) -> None:
        if _matches(request, method, path):
            raise error or StorageError(f"{request.path}: the storage failed on purpose")

    return hook


def fail_once(method: str, path: str = "", error: StorageError | None = None) -> Hook:
    failed = False
    fail = fail_for_good(method, path, error)

    def hook(request: Request) -> None:
        nonlocal failed
        if not failed and _matches(request, method, path):
            failed = True
            fail(request)

    return hook


def fail_after(count: int) -> Hook:
    """Every request behind the first `count` fails."""

    def hook(request: Request) -> None:
        if request.number > count:
            raise StorageError(f"{request.path}: the storage is gone")

    return hook


def kill_at(number: int) -> Hook:
    """`kill -9` of this process at the request of this number."""

    def hook(request: Request) -> None:
        if request.number == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


def flip_bit(path: str, bit: int) -> Alter:
    """One bit of each file whose path begins so is read wrong, counted modulo its size."""

    def alter(read_path: str, data: bytes) -> bytes:
        if not read_path.startswith(path) or not data:
            return data
        damaged = bytearray(data)
        place = bit % (len(data) * 8)
        damaged[place // 8] ^= 1 << (place % 8)
        return bytes(damaged)

    return alter


def before_the_write(act: Callable[[], object]) -> Callable[[Request], None]:
    """Somebody else acts once, just before the state is replaced."""
    acted = False

    def hook(request: Request) -> None:
        nonlocal acted
        if request.method == "put_if_match" and request.path == "repo" and not acted:
            acted = True
            act()

    return hook
