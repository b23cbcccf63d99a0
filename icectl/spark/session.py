"""Start the Spark session.

It is `local[*]` unless a master or a Connect server is given. The executors use the running
interpreter unless `PYSPARK_PYTHON` names another.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from icectl.errors import IcectlError, Remedy, UnsupportedError
from icectl.java import find_java, why_no_java
from icectl.spark import SUBMITTED, register

logger = logging.getLogger(__name__)

PYSPARK_HINT = "pip install 'icectl[spark]' installs PySpark; it needs Java 17 or newer"
JAVA_HINT = "install Java 17 or newer, and let JAVA_HOME name it or be unset"
CONNECT = "sc://"
CONNECT_PORT = 15002
STANDALONE = "spark://"
STANDALONE_PORT = 7077
SECONDS_TO_CONNECT = 10.0
QUIET_LOG = Path(__file__).with_name("log4j2.properties")


@dataclass(frozen=True, slots=True)
class SparkOptions:
    master: str | None = None
    remote: str | None = None
    """The URL of a Spark Connect server: sc://HOST:PORT."""
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Missing:
    what: str
    """As a sentence."""
    hint: str


def missing_for_spark(options: SparkOptions, environ: Mapping[str, str]) -> Missing | None:
    """What is missing for a session; None if nothing is."""
    for module in ("pyspark", "pyarrow"):
        if find_spec(module) is None:
            return Missing(f"{module} is not installed", PYSPARK_HINT)
    # Elsewhere, or started already.
    if options.remote or SUBMITTED in environ or find_java(environ) is not None:
        return None
    return Missing(why_no_java(environ), JAVA_HINT)


@contextmanager
def spark_session(
    options: SparkOptions, environ: MutableMapping[str, str], *, name: str = "icectl"
) -> Iterator[Any]:
    """A session with the format `icechunk` registered; stopped afterwards if it was started here.

    `environ` must be that of the process: the Java side inherits it.
    """
    missing = missing_for_spark(options, environ)
    if missing is not None:
        raise UnsupportedError(f"Spark cannot be used: {missing.what}", hint=missing.hint)
    from tempfile import TemporaryDirectory

    from pyspark.sql import SparkSession

    # It warns every user about the newest pandas, and users cannot act on it.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\.")
    running = SparkSession.getActiveSession()
    if running is not None:
        register(running)
        yield running
        return
    _check_connection(options)
    logger.info("starting a Spark session")
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Otherwise Spark creates a directory for its own tables, even for SHOW TABLES.
    with TemporaryDirectory(prefix="icectl-") as warehouse:
        session = _start(_builder(options, name, warehouse, submitted=SUBMITTED in environ))
        try:
            register(session)
            yield session
        finally:
            session.stop()


def _check_connection(options: SparkOptions) -> None:
    """`IcectlError` if the server cannot be reached; Spark would try silently for minutes."""
    if options.remote:
        url, port = options.remote.removeprefix(CONNECT).split("/")[0], CONNECT_PORT
    elif options.master and options.master.startswith(STANDALONE):
        url, port = options.master.removeprefix(STANDALONE), STANDALONE_PORT
    else:
        return
    import socket

    reason = ""
    for address in url.split(","):  # several masters, of which one leads
        host, _, number = address.rpartition(":")
        if not number.isdecimal():
            host, number = address, str(port)
        try:
            socket.create_connection((host.strip("[]"), int(number)), SECONDS_TO_CONNECT).close()
            return
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
    raise IcectlError(
        f"Spark did not start: no connection to {options.remote or options.master}: {reason}",
        hint="check the address, and that the server runs",
    )


def _builder(options: SparkOptions, name: str, warehouse: str, *, submitted: bool) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).config("spark.sql.session.timeZone", "UTC")
    if options.remote:
        builder = builder.remote(options.remote)
    elif options.master or not submitted:
        builder = builder.master(options.master or "local[*]")
    if not options.remote and not submitted:
        logging = f"-Dlog4j2.configurationFile={QUIET_LOG.as_uri()}"
        builder = (
            builder.config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.extraJavaOptions", logging)
            .config("spark.sql.warehouse.dir", Path(warehouse).as_uri())
        )
    for key, value in options.conf.items():
        builder = builder.config(key, value)
    return builder


def _start(builder: Any) -> Any:
    from icectl.spark.java_stderr import JavaStderr

    with JavaStderr() as java:
        try:
            return builder.getOrCreate()
        except Exception as error:
            reason = java.take_reason() if "JAVA_GATEWAY_EXITED" in str(error) else None
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise IcectlError(
                f"Spark did not start: {reason or lines[0]}",
                hint=Remedy("check-spark-start"),
            ) from error
