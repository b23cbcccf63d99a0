"""The variables that the cloud libraries read by themselves, looked at before they do.

A wrong one costs many seconds of retries there, and ends in words that name no variable.
"""

from __future__ import annotations

from collections.abc import Mapping

from icectl.cli.locations import Location
from icectl.storage.open import check_endpoint_url, split_location


def check_variables(location: Location, environ: Mapping[str, str]) -> None:
    """`IcectlError` for a variable that would be used for this location and cannot work."""
    scheme, _ = split_location(location.url)
    options = location.storage_options
    if scheme == "s3" and "endpoint_url" not in options:
        names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        used = next((name for name in names if environ.get(name)), None)
        if used is not None:
            check_endpoint_url(environ[used], f"the variable {used}")
    if scheme == "gs" and options.get("anonymous", "false").lower() in ("false", "0"):
        file = environ.get("GOOGLE_APPLICATION_CREDENTIALS")
        if file and "credentials_file" not in options:
            from icectl.storage.gcs import check_credentials_file

            check_credentials_file(file)
