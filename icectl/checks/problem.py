"""A broken rule in one file, and the error that it becomes where nothing may be deleted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from icectl.checks.rules import Rule
from icectl.errors import (
    FormatError,
    Hint,
    IcectlError,
    ObjectTooLargeError,
    Remedy,
    UnsupportedError,
)
from icectl.model.ids import ObjectId


@dataclass(frozen=True, slots=True)
class Problem:
    rule: Rule
    object: str
    """The path of the file."""
    detail: str
    path: str | None = None
    """The path of the node, if the problem concerns a single one."""
    chunks: tuple[tuple[int, ...], ...] = ()
    """The coordinates of the node's chunks that are affected, if they are known."""

    @property
    def key(self) -> tuple[str, str, str | None]:
        """Identifies the problem in a baseline."""
        return self.rule.code, self.object, self.path


Found = tuple[Rule, str, str | None]
"""A problem without its file: the rule, the detail and the path of the node."""

UNREADABLE = (FormatError, UnsupportedError, ObjectTooLargeError)
"""What decoders raise; a damaged header can look like an unknown version."""


def unreadable(rule: Rule, object_: str, error: IcectlError) -> Problem:
    if not isinstance(error, FormatError):
        return Problem(rule, object_, error.message)
    byte = "" if error.offset is None else f" (at byte {error.offset})"
    return Problem(rule, object_, f"{error.reason}{byte}")


def wrong_id(rule: Rule, object_: str, found: ObjectId) -> Problem:
    """The name of a file is its id: any other id in it means a file in the wrong place."""
    return Problem(rule, object_, f"the id in the file is {found}")


def error_of(problem: Problem, hint: Hint | None = None) -> FormatError:
    node = "" if problem.path is None else f" (node {problem.path})"
    return FormatError(
        f"{problem.rule.title}: {problem.detail}{node}",
        path=problem.object,
        hint=hint,
        code=problem.rule.code,
    )


def raise_first(problems: Iterable[Problem], hint: Hint | None = None) -> None:
    """Raise the first problem, whatever its severity, as a `FormatError`.

    For commands that delete. They run only the checks of what decides which objects are needed:
    some warnings matter there, and some errors do not.
    """
    for problem in problems:
        raise error_of(problem, hint)


def decoding_error(error: FormatError | UnsupportedError, object_: str) -> IcectlError:
    """The error of a decoder, naming the file."""
    if isinstance(error, FormatError):
        return error.at(object_)
    # The repository has a known version, so this one file is the exception.
    message = f"{object_}: {error.message}"
    return UnsupportedError(message, hint=Remedy("validate-unknown-version"))
