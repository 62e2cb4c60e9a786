"""What a transaction's coordinator says of it: the only one who knows how it ended when its producer does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from examples.workload.template import GaveUp
from hangbench.kafka.coordinators import described
from hangbench.kafka.wire import COORDINATOR_ERRORS, BrokerRefused

PAUSE_S: Final = 0.05

COMMITTED_STATES: Final = frozenset({"PrepareCommit", "CompleteCommit"})
FORGOTTEN_STATES: Final = frozenset({"Empty", "Dead"})  # a start that 3.9 still tells here is of the one before
OPEN_STATES: Final = frozenset({"Ongoing", "PrepareEpochFence"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The latest transaction of an id."""

    state: str
    """Kafka's name of it; `Empty` where there is none, or where its producer initialised anew since."""
    producer_epoch: int
    start_ms: int
    """-1 where there is none."""
    timeout_ms: int

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


UNKNOWN_ID: Final = Standing(state="Empty", producer_epoch=-1, start_ms=-1, timeout_ms=-1)


def standing_of(bootstrap: str, transactional_id: str, give_up_s: float) -> Standing:
    """Ask until it is answered, through restarts and moves; GaveUp after so many seconds."""
    deadline = time.monotonic() + give_up_s
    while True:
        try:
            return _ask(bootstrap, transactional_id)
        except (OSError, BrokerRefused) as failure:
            if isinstance(failure, BrokerRefused) and failure.error_code not in COORDINATOR_ERRORS:
                raise
            if time.monotonic() > deadline:
                raise GaveUp(
                    f"after {give_up_s:g} s no coordinator tells of {transactional_id}: {failure}"
                ) from failure
        time.sleep(PAUSE_S)


def wait_until_ended(
    bootstrap: str, transactional_id: str, give_up_s: float, *, stopped: Callable[[], bool] = lambda: False
) -> Standing:
    """Wait while its transaction is open, for its time-out and `give_up_s` seconds at most, or until `stopped`."""
    standing = standing_of(bootstrap, transactional_id, give_up_s)
    deadline = time.monotonic() + standing.timeout_ms / 1000 + give_up_s
    while standing.is_open and not stopped():
        if time.monotonic() > deadline:
            raise GaveUp(f"{transactional_id}: its coordinator has not timed out its transaction")
        time.sleep(PAUSE_S)
        standing = standing_of(bootstrap, transactional_id, give_up_s)
    return standing


def _ask(bootstrap: str, transactional_id: str) -> Standing:
    told = described(bootstrap, transactional_id)
    if told is None:
        return UNKNOWN_ID
    return Standing(
        state=told.transaction_state,
        producer_epoch=told.producer_epoch,
        start_ms=told.transaction_start_time_ms,
        timeout_ms=told.transaction_timeout_ms,
    )
