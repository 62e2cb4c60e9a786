"""Work on a thread of its own, from its making until `close`."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class Background(ABC):
    """A class that works beside a test: it calls `super().__init__` when it has all that `run` needs."""

    def __init__(self, *, joined_within_s: float | None = None) -> None:
        """`joined_within_s`: `close` waits no longer for the end of `run`; None: as long as that takes."""
        self._joined_within_s = joined_within_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._thread.start()

    @abstractmethod
    def run(self) -> None:
        """Works until `is_ending()`."""

    def is_ending(self) -> bool:
        """True once `close` was called."""
        return self._ending.is_set()

    def pause(self, duration_s: float) -> bool:
        """Waits so long, or until `close`; returns `is_ending()`."""
        return self._ending.wait(duration_s)

    def close(self) -> None:
        """Nothing new begins."""
        self._ending.set()
        self._thread.join(self._joined_within_s)
