"""Find the Java that Spark would start."""

from __future__ import annotations

from collections.abc import Mapping


def find_java(environ: Mapping[str, str]) -> str | None:
    """Return the path of `java`. Like Spark, look only in JAVA_HOME if it is set, else in PATH."""
    from shutil import which

    home = environ.get("JAVA_HOME")
    return which(f"{home}/bin/java") if home else which("java", path=environ.get("PATH"))


def why_no_java(environ: Mapping[str, str]) -> str:
    home = environ.get("JAVA_HOME")
    return f"JAVA_HOME is {home}, which has no bin/java" if home else "Java is not installed"
