"""A place in an object store with the part of `pathlib.Path` that is used here, by Arrow's own file systems.

An object appears whole or not at all. There are no folders: a folder is what the names of objects begin with.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Final

from exporter.storage.faults import StoreError, reason_of
from exporter.storage.location import Location
from exporter.storage.s3 import aws_variables, s3_settings

CONNECT_SECONDS: Final = 5.0
ATTEMPTS: Final = 3
"""Attempts of one request: more wait for the next cycle or run."""
GOOGLE_RETRY_SECONDS: Final = 15
"""Seconds of one request, which may take half as long again: without a limit Google's client repeats it for a quarter
of an hour, without credentials too.
"""


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """Status of an object, as of a file."""

    st_size: int
    st_mtime_ns: int

    @property
    def st_mtime(self) -> float:
        return self.st_mtime_ns / 1e9


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """An object, or what its folder would be."""

    location: Location
    status: ObjectStatus | None = field(default=None, compare=False)
    """Status when the object was listed."""

    def __str__(self) -> str:
        return str(self.location)

    def __truediv__(self, name: str) -> ObjectPath:
        return self._at(f"{self.location.key}/{name}".lstrip("/"))

    def _at(self, key: str) -> ObjectPath:
        return ObjectPath(replace(self.location, key=key))

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self.location.key)

    @property
    def name(self) -> str:
        return self._pure.name

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.location.container, *self._pure.parts)

    @property
    def parent(self) -> ObjectPath:
        parent = str(self._pure.parent)
        return self._at("" if parent == "." else parent)

    def with_name(self, name: str) -> ObjectPath:
        return self._at(str(self._pure.with_name(name)))

    def relative_to(self, other: ObjectPath) -> PurePosixPath:
        return self._pure.relative_to(other._pure)

    def exists(self) -> bool:
        """True for an object, and for a folder with one. Raises StoreError, as all that follow."""
        return bool(self._info().type.name != "NotFound")

    def is_dir(self) -> bool:
        return bool(self._info().type.name == "Directory")

    def is_file(self) -> bool:
        return bool(self._info().is_file)

    def _info(self) -> Any:
        with self.faults():
            return self._system.get_file_info(self._arrow_path)

    def stat(self) -> ObjectStatus:
        """Raises FileNotFoundError."""
        if self.status is not None:
            return self.status
        info = self._info()
        if not info.is_file:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return ObjectStatus(info.size, info.mtime_ns)

    def opened(self) -> OpenObject:
        """Opens the object for reading at any offset. Raises FileNotFoundError."""
        with self.faults():
            return OpenObject(self, self._system.open_input_file(self._arrow_path))

    def read_bytes(self) -> bytes:
        """Raises FileNotFoundError."""
        with self.opened() as file:
            return file.read()

    def read_text(self, encoding: str = "utf-8") -> str:
        """Raises FileNotFoundError, and UnicodeDecodeError."""
        return self.read_bytes().decode(encoding)

    def write_bytes(self, content: Any) -> None:
        """Replaces the object by a buffer; after an error it is the old or the new one.

        One call writes all: a stream that ends early would be completed, and half an object would appear.
        """
        try:
            with self.faults(), self._system.open_output_stream(self._arrow_path) as stream:
                stream.write(content)
        except FileNotFoundError as error:  # the bucket
            raise StoreError(f"{self}: {reason_of(error)}") from None

    def unlink(self, *, missing_ok: bool = False) -> None:
        try:
            with self.faults():
                self._system.delete_file(self._arrow_path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rmtree(self) -> None:
        """Removes the folder with all of its objects, the deepest first: what is on a disk in the end wants that."""
        with self.faults():
            for info in self._listed():
                if info.is_file:
                    with suppress(FileNotFoundError):  # gone meanwhile, or a folder that S3Proxy lists as an object
                        self._system.delete_file(info.path)
            folders = [info.path for info in self._listed() if info.type.name == "Directory"]
            for path in (*sorted(folders, key=len, reverse=True), self._arrow_path):
                with suppress(FileNotFoundError):
                    self._system.delete_dir(path)

    def rmdir(self) -> None:
        """Removes what Arrow leaves in place of a folder without objects. Raises OSError if there are objects."""
        if any(self.rglob("*")):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(self))
        self.rmtree()

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:
        """Does nothing: a folder begins with its first object."""

    def glob(self, pattern: str) -> Iterator[ObjectPath]:
        """Objects, in any order, whose parts below this one match those of `pattern`."""
        wanted = pattern.split("/")
        for path in self.rglob("*"):
            parts = path.relative_to(self).parts
            if len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted)):
                yield path

    def rglob(self, pattern: str) -> Iterator[ObjectPath]:
        """Objects of any depth whose name matches `pattern`."""
        with self.faults():
            infos = self._listed()
        for info in infos:
            if info.is_file and fnmatchcase(info.base_name, pattern):
                key = info.path.partition("/")[2]
                yield replace(self._at(key), status=ObjectStatus(info.size, info.mtime_ns))

    def _listed(self) -> Any:
        from pyarrow.fs import FileSelector  # noqa: PLC0415

        return self._system.get_file_info(FileSelector(self._arrow_path, recursive=True, allow_not_found=True))

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Names this object in errors of the store."""
        try:
            yield
        except (FileNotFoundError, StoreError):
            raise
        except OSError as error:
            raise StoreError(f"{self}: {reason_of(error)}") from None

    @property
    def _system(self) -> Any:
        return _system_of(self.location)

    @property
    def _arrow_path(self) -> str:
        container = self.location.container.partition("@")[0]
        return f"{container}/{self.location.key}".rstrip("/")


class OpenObject(io.RawIOBase):
    """An object that is read. A fault of the store is a StoreError, and so differs from damaged content."""

    def __init__(self, path: ObjectPath, file: Any) -> None:
        super().__init__()
        self._path = path
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        position: int = self._file.seek(offset, whence)
        return position

    def tell(self) -> int:
        position: int = self._file.tell()
        return position

    def read(self, size: int | None = -1) -> bytes:
        with self._path.faults():
            content: bytes = self._file.read(None if size is None or size < 0 else size)
        return content

    def close(self) -> None:
        self._file.close()
        super().close()


def _system_of(location: Location) -> Any:
    """The file system that Arrow has for the store; a process keeps one for each account."""
    account = location.container.partition("@")[2] if location.scheme == "abfs" else ""
    aws = tuple(sorted(aws_variables().items()))
    return _made(location.scheme, account, aws if location.scheme == "s3" else ())


@lru_cache(maxsize=8)
def _made(scheme: str, account: str, environment: tuple[tuple[str, str], ...]) -> Any:
    try:
        from pyarrow import fs  # noqa: PLC0415 - loading it takes time and memory

        kind = {"s3": "S3FileSystem", "gs": "GcsFileSystem", "abfs": "AzureFileSystem"}[scheme]
        make = getattr(fs, kind)
    except (ImportError, AttributeError) as error:
        raise OSError(f"the package pyarrow cannot use {scheme}: here ({error})") from error
    if scheme == "gs":
        return make(retry_time_limit=timedelta(seconds=GOOGLE_RETRY_SECONDS))
    if scheme == "abfs":
        return make(account_name=account.partition(".")[0])
    settings = s3_settings(dict(environment))
    return make(
        region=settings.region,
        scheme="https" if settings.is_encrypted else "http",
        endpoint_override=settings.endpoint_host,
        force_virtual_addressing=not settings.is_path_style,
        connect_timeout=CONNECT_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        allow_delayed_open=True,
    )
