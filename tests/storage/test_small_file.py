"""A small file in an object store: fetched again by a thread that ends with whoever reads it."""

from __future__ import annotations

import threading
from typing import Any, cast

from exporter.storage.objects import ObjectPath
from exporter.storage.small_file import FetchedObject
from hangbench.waiting import until


class Store:
    """Of one object, that changes with each request for its status."""

    def __init__(self) -> None:
        self.requests = 0

    def stat(self) -> Any:
        self.requests += 1
        raise OSError(f"request {self.requests}")


def fetching() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "fetched object"}


def test_it_is_fetched_again_until_nobody_reads_it() -> None:
    """A reload with another file leaves no thread behind that asks for the old one."""
    before, store = fetching(), Store()
    file: FetchedObject | None = FetchedObject(cast("ObjectPath", store), 10, every_s=0.01)
    until(lambda: store.requests, lambda requests: requests > 2)
    (thread,) = fetching() - before
    assert file is not None

    file = None

    assert not until(thread.is_alive, lambda is_alive: not is_alive)
