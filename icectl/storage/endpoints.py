"""The address of a server: from an option, or from the variables that its library reads."""

from __future__ import annotations

import os

from icectl.errors import UsageError

AWS_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def check_endpoint_url(url: str, origin: str) -> str:
    """The URL itself; `UsageError` that names its `origin` when no server has such a one."""
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise UsageError(
            f"{origin} must not hold a user or password",
            hint="credentials come from the standard variables and files",
        )
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(
            f"{origin} is not an http(s) URL: {url}", hint="write http://HOST:PORT or https://HOST"
        )
    return url


def check_aws_endpoint_variables() -> None:
    """`UsageError` for a variable that botocore would take and fail on, many seconds later."""
    if os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return
    for name in AWS_VARIABLES:
        if url := os.environ.get(name):
            check_endpoint_url(url, f"the variable {name}")
            return
