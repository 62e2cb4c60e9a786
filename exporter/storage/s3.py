"""Settings of S3 that three libraries read differently: Arrow, Spark's connector and deltalake get the same ones."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from exporter.storage.faults import StoreError

_ENDPOINT: Final = re.compile(r"https?://[A-Za-z0-9._:\[\]-]+/?")
REGION: Final = "us-east-1"
"""Region of a store with an endpoint, unless the environment names another one: such stores have none, but requests do."""


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Settings to reach S3. Credentials are not here: each library reads them itself."""

    endpoint: str | None
    """URL of an S3-compatible store; None for AWS."""
    region: str | None
    """Region; None leaves it to the library."""
    is_path_style: bool
    """The bucket is in the path of a URL, not in its host."""

    @property
    def endpoint_host(self) -> str | None:
        """`host:port` of the endpoint."""
        return None if self.endpoint is None else urlsplit(self.endpoint).netloc

    @property
    def is_encrypted(self) -> bool:
        """False for an endpoint with http."""
        return self.endpoint is None or urlsplit(self.endpoint).scheme != "http"


def aws_variables() -> dict[str, str]:
    """Returns the variables that the libraries read, credentials too; `s3_settings` takes those read differently."""
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}


def s3_settings(environment: Mapping[str, str] | None = None) -> S3Settings:
    """Reads the variables of AWS' own tools, and `AWS_VIRTUAL_HOSTED_STYLE_REQUEST`, which deltalake reads as well.

    Raises StoreError for an endpoint that some library would ignore, and ask AWS instead.
    """
    environment = aws_variables() if environment is None else environment
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or None
    if endpoint is not None and _ENDPOINT.fullmatch(endpoint) is None:
        raise StoreError(
            "the endpoint in AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL must be http://HOST:PORT or https://HOST:PORT"
        )
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or None
    is_virtual = environment.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() in {"true", "1"}
    return S3Settings(
        endpoint=endpoint,
        region=region or (None if endpoint is None else REGION),
        is_path_style=endpoint is not None and not is_virtual,
    )
