"""The standard variables of the clouds: the only part of the environment that a storage reads.

The libraries of the clouds read them as well.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from icectl.storage.open import check_endpoint_url, split_location

AWS_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def cloud_variables() -> Mapping[str, str]:
    return os.environ


def check_cloud_variables(
    location: str, options: Mapping[str, str], environ: Mapping[str, str]
) -> None:
    """Refuse values with which the libraries of the cloud would retry for many seconds.

    Their errors do not name the variable.
    """
    scheme, _ = split_location(location)
    if scheme == "s3" and "endpoint_url" not in options:
        used = next((name for name in AWS_ENDPOINTS if environ.get(name)), None)
        if used is not None:
            check_endpoint_url(environ[used], f"the variable {used}")
    if scheme == "gs" and options.get("anonymous", "false").lower() in ("false", "0"):
        file = environ.get("GOOGLE_APPLICATION_CREDENTIALS")
        if file and "credentials_file" not in options:
            from icectl.storage.gcs import check_credentials_file

            check_credentials_file(file)
