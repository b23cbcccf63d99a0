"""Exceptions with a kind, an exit code and a hint.

Every failure that a user can meet is an `IcectlError`: one sentence, an optional hint, a stable
`kind` for `--json`, and an exit code. Any other exception that reaches the command line is a bug
in icectl (exit code 70).

Only `icectl.cli` knows commands and options. A hint that needs them is a `Remedy`, which
`icectl.cli.hints` turns into text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Remedy:
    """The name of a hint that mentions commands or options."""

    name: str
    facts: Mapping[str, str] = field(default_factory=dict)
    """Values for the text of the hint, such as the name of a branch."""


Hint = str | Remedy


class IcectlError(Exception):
    """A failure that is reported to the user in one sentence."""

    kind: ClassVar[str] = "failed"
    exit_code: ClassVar[int] = 1
    facts: Mapping[str, int] = {}
    """Numbers that `--json` adds to the error."""

    def __init__(self, message: str, *, hint: Hint | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle all attributes, so that errors from other processes arrive complete."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(cls: type[IcectlError], args: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(attributes)
    return error


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
        """Whether the location holds files of a repository, so the user meant this location."""


class ConflictError(IcectlError):
    """Another writer changed the same thing, and all retries failed."""

    kind = "conflict"
    exit_code = 11


class RefNotFoundError(IcectlError):
    """No branch, tag, snapshot or node has the name, or the name is ambiguous."""

    kind = "ref_not_found"
    exit_code = 12


class FormatError(IcectlError):
    """A file is unreadable or damaged.

    `path` names the file if the caller knows it. `offset` is a byte position: in the file for
    the envelope, in the decompressed payload for everything after it. `code` is that of the
    broken rule of `icectl.checks`, if one of these checks failed.
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
        code: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = message
        self.code = code
        self.offset = offset
        self.path = path
        self._compose()

    def at(self, path: str) -> FormatError:
        """Return the same error with the path of the file."""
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
    """A file needs more memory or time than its size justifies; see `icectl.limits`."""

    kind = "limit_exceeded"

    def __init__(self, limit: str, message: str, *, offset: int | None = None) -> None:
        super().__init__(
            f"{message} (icectl limit {limit})",
            offset=offset,
            hint="no known writer creates such a file; if yours did, please report it",
        )
        self.limit = limit


class StorageError(IcectlError):
    """The storage refused a request, failed or did not answer."""

    kind = "storage"
    exit_code = 14


class ThrottledError(StorageError):
    """The storage throttled a request until the retries were used up."""


class ObjectNotFoundError(StorageError):
    """The storage reported that the object does not exist."""

    kind = "object_not_found"

    def __init__(self, path: str, *, hint: Hint | None = None) -> None:
        super().__init__(f"{path} does not exist", hint=hint)
        self.path = path


class ObjectTooLargeError(StorageError):
    """An object is too large to be read in one piece."""

    kind = "limit_exceeded"
    exit_code = 13


class PreconditionFailedError(StorageError):
    """A conditional put failed because the object is not in the expected state."""

    kind = "precondition_failed"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed by another writer")
        self.path = path


class UnsupportedError(IcectlError):
    """A version, generation or feature that this version of icectl does not support."""

    kind = "unsupported"
    exit_code = 15


class RefusedError(IcectlError):
    """A safety check failed: status, feature flag, existing object, missing confirmation."""

    kind = "refused"
    exit_code = 16
