"""The Java that Spark would start, for doctor and for sessions."""

from __future__ import annotations

from collections.abc import Mapping


def find_java(environ: Mapping[str, str]) -> str | None:
    """That of JAVA_HOME wherever it is set, as Spark has it, even if there is one in PATH."""
    from shutil import which

    home = environ.get("JAVA_HOME")
    return which(f"{home}/bin/java") if home else which("java", path=environ.get("PATH"))


def why_no_java(environ: Mapping[str, str]) -> str:
    home = environ.get("JAVA_HOME")
    return f"JAVA_HOME is {home}, and there is no Java in it" if home else "Java is not installed"
