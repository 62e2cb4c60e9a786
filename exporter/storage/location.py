"""Parses where a folder or a file is: a path, a `file:` URI, or the URI of an object store. No network, no Arrow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

SCHEMES: Final = {"s3": "s3", "s3a": "s3", "gs": "gs", "abfs": "abfs", "abfss": "abfs"}
"""Object stores, by the schemes under which Spark and others know them."""
EXPECTED: Final = "a path, or a URI with file:, s3:, gs: or abfs:"
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_KNOWN: Final = re.compile(rf"(file|{'|'.join(SCHEMES)}):", re.IGNORECASE)
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
_CONTAINER: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{1,61}[a-z0-9])?@[a-z0-9]{3,24}\.dfs\.core\.windows\.net")
_KEY: Final = re.compile(r"[A-Za-z0-9._=()!*'/-]*")
_SPECIAL: Final = re.compile(r"[#?%\[\]{}\\`]")


@dataclass(frozen=True, slots=True)
class Location:
    """A place in an object store."""

    scheme: str
    """A value of `SCHEMES`."""
    container: str
    """The bucket; of `abfs` the container and the account's host: `container@account.dfs.core.windows.net`."""
    key: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.container}/{self.key}".rstrip("/")


def parse(text: str) -> Path | Location:
    """The place that `text` names. Raises ValueError with the end of a sentence: "must be ..."."""
    scheme = _SCHEME.match(text) or _KNOWN.match(text)
    if scheme is None:
        return Path(text)
    name = scheme[1].lower()
    if name == "file":
        return _local(text)
    if name not in SCHEMES:
        raise ValueError(f"must be {EXPECTED}; {name}: is not supported")
    return _in_store(SCHEMES[name], text[scheme.end() :], has_authority=scheme.re is _SCHEME)


def _local(text: str) -> Path:
    parts = urlsplit(text)
    if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/") or parts.query or parts.fragment:
        raise ValueError("must be file:///PATH, with an absolute path on this machine")
    return Path(unquote(parts.path))


def _in_store(scheme: str, rest: str, *, has_authority: bool) -> Location:
    """Parses a location of s3, gs and abfs. A part that may be a secret is not shown."""
    form = "abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY" if scheme == "abfs" else f"{scheme}://BUCKET/KEY"
    container, _, key = rest.partition("/")
    if "?" in rest or "#" in rest:
        raise ValueError(f"must be {form} without a query: endpoint, region and credentials are environment variables")
    if scheme != "abfs" and "@" in container:
        raise ValueError(f"must be {form} without credentials, which are environment variables")
    pattern = _CONTAINER if scheme == "abfs" else _BUCKET
    if not has_authority or pattern.fullmatch(container) is None:
        raise ValueError(f"must be {form}")
    key = key.strip("/")
    if _KEY.fullmatch(key) is None or not {"", ".", ".."}.isdisjoint(key.split("/") if key else ()):
        raise ValueError(f"must be {form} with a KEY of ASCII letters, digits, / and . _ - = ( ) ! * '")
    return Location(scheme, container, key)


def refusal_by_spark(path: Path) -> str | None:
    """Returns why Spark and Delta cannot use a path on a disk, as the end of a sentence; None if they can.

    Python has no such limit: an exporter may write its history there, and read its baselines.
    """
    if _SPECIAL.search(str(path.absolute())) is None:
        return None
    return "must be a path without # ? % [ ] { } \\ and `, which Spark or Delta would read as something else"
