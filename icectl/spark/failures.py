"""Failures of Spark as errors of icectl.

Spark reports an error in an executor as the text of a traceback. An error of icectl in it keeps
its message, kind and exit code. `icectl.spark.jobs` does better where it can: it fetches the error
itself, with its code and hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from icectl import errors
from icectl.errors import IcectlError, Remedy, UsageError
from icectl.tables.names import tables_hint

_OURS = re.compile(r"^(?:.*\s)?icectl\.errors\.(\w+): (.+)$", re.MULTILINE)
_JAVA = re.compile(r"^(?:: |Caused by: )[\w.$]+: (.+)$", re.MULTILINE)
"""The message of a Java exception; the last one is that of the cause of all others."""


@contextmanager
def translate_failures() -> Iterator[None]:
    """Raise failures of Spark in the block as `IcectlError`."""
    from pyspark.errors import AnalysisException, ParseException, PySparkException
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # They would write the same to stderr, with a traceback.
        PySparkLogger.getLogger(name).disabled = True
    failures: tuple[type[Exception], ...] = (PySparkException,)
    with suppress(ImportError):  # a client of Spark Connect needs no Java
        from py4j.protocol import Py4JError

        failures += (Py4JError,)
    try:
        yield
    except failures as error:
        ours = _find_ours(str(error))
        if ours is not None:
            raise ours from error
        lines = str(error).strip().splitlines() or [type(error).__name__]
        if isinstance(error, AnalysisException | ParseException):
            unknown = error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
            raise UsageError(lines[0], hint=tables_hint() if unknown else None) from error
        reason = _root_cause(str(error)) or lines[0]
        raise IcectlError(f"Spark failed: {reason}", hint=Remedy("check-spark")) from error


def _root_cause(text: str) -> str:
    """The innermost message of Java, with what the one around it adds to it."""
    *outer, cause = ["", *_JAVA.findall(text)]
    return outer[-1] if outer and cause in outer[-1] else cause


def _find_ours(text: str) -> IcectlError | None:
    found = _OURS.search(text)
    kind = getattr(errors, found[1], None) if found else None
    if found is None or kind is None:
        return None
    same = type(kind.__name__, (IcectlError,), {"kind": kind.kind, "exit_code": kind.exit_code})
    error: IcectlError = same(found[2])
    return error
