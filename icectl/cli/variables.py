"""Check the variables that the cloud libraries read.

With an invalid value, the libraries retry for many seconds, and their errors do not name the
variable.
"""

from __future__ import annotations

from collections.abc import Mapping

from icectl.cli.locations import Location
from icectl.storage.open import check_endpoint_url, split_location


def check_variables(location: Location, environ: Mapping[str, str]) -> None:
    """Raise `IcectlError` for an invalid variable that would be used for this location."""
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
