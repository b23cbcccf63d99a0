"""The whole exception tree.

Every failure that a user can meet is an `IcectlError`: one sentence, a hint where there is
something to do about it, a stable `kind` for `--json`, and the exit code. Anything else that
reaches the command line is a bug in icectl (exit code 70).

Only `icectl.cli` knows commands and options. Where they are the way out, the hint is a `Remedy`,
and `icectl.cli.hints` has the words for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Remedy:
    """What a user can do about a failure with commands or options, by name."""

    name: str
    facts: Mapping[str, str] = field(default_factory=dict)
    """Values for the wording, such as the name of a branch."""


Hint = str | Remedy


class IcectlError(Exception):
    """A failure that is told to the user in one sentence."""

    kind: ClassVar[str] = "failed"
    exit_code: ClassVar[int] = 1
    facts: Mapping[str, int] = {}
    """Numbers that `--json` adds to the error."""

    def __init__(self, message: str, *, hint: Hint | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(IcectlError):
    """The command line, the config file or a name in them is not valid."""

    kind = "usage"
    exit_code = 2


class RepositoryNotFoundError(IcectlError):
    """The location holds no repository."""

    kind = "repository_not_found"
    exit_code = 10

    def __init__(
        self, message: str, *, hint: Hint | None = None, has_remains: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.has_remains = has_remains
        """Whether files of a repository are there: then no other location is meant."""


class ConflictError(IcectlError):
    """Somebody else changed the same thing, and the retries are used up."""

    kind = "conflict"
    exit_code = 11


class RefNotFoundError(IcectlError):
    """No such branch, tag, snapshot or node; or the name fits more than one."""

    kind = "ref_not_found"
    exit_code = 12


class FormatError(IcectlError):
    """A file is unreadable or damaged.

    `path` names the file where the caller knows it, `offset` is a byte position: in the file
    itself for the envelope, in the decompressed payload for everything behind it.
    """

    kind = "damaged"
    exit_code = 13

    def __init__(
        self,
        message: str,
        *,
        offset: int | None = None,
        path: str | None = None,
        hint: Hint | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = message
        self.offset = offset
        self.path = path
        self._compose()

    def at(self, path: str) -> FormatError:
        """The same error, naming the file it was found in."""
        if self.path is None:
            self.path = path
            self._compose()
        return self

    def _compose(self) -> None:
        where = f"{self.path}: " if self.path else ""
        byte = f" (at byte {self.offset})" if self.offset is not None else ""
        self.message = f"{where}{self.reason}{byte}"
        self.args = (self.message,)


class LimitExceededError(FormatError):
    """A file asks for more memory or time than its size justifies; `limits` has the limits."""

    kind = "limit_exceeded"

    def __init__(self, limit: str, message: str, *, offset: int | None = None) -> None:
        super().__init__(
            f"{message} (the limit {limit} of icectl)",
            offset=offset,
            hint="no known writer makes such a file; if yours did, please report it",
        )
        self.limit = limit


class StorageError(IcectlError):
    """The storage refused, failed or did not answer."""

    kind = "storage"
    exit_code = 14


class ThrottledError(StorageError):
    """The storage kept asking for fewer requests."""


class ObjectNotFoundError(StorageError):
    """The storage answered: there is no such object."""

    kind = "object_not_found"

    def __init__(self, path: str, *, hint: Hint | None = None) -> None:
        super().__init__(f"{path} does not exist", hint=hint)
        self.path = path


class ObjectTooLargeError(StorageError):
    """An object is larger than any that is read as a whole."""

    kind = "limit_exceeded"
    exit_code = 13


class PreconditionFailedError(StorageError):
    """A conditional put lost: the object is not in the state the caller named."""

    kind = "precondition_failed"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed by another writer")
        self.path = path


class UnsupportedError(IcectlError):
    """A version, generation or feature that this icectl cannot work with."""

    kind = "unsupported"
    exit_code = 15


class RefusedError(IcectlError):
    """A guard said no: status, feature flag, existing object, missing confirmation."""

    kind = "refused"
    exit_code = 16
