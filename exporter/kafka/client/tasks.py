"""Runs coroutines at the same time on the client's thread, and waits for all or any of them."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from kafka.future import Future
from kafka.net.selector import NetworkSelector

T = TypeVar("T")


async def gather(net: NetworkSelector, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Returns the results of all, in order. Raises the first one's exception, after all ended."""
    coroutines = tuple(coroutines)
    if len(coroutines) == 1:
        return [await coroutines[0]]
    return await results_of([net.call_soon_with_future(coroutine) for coroutine in coroutines])


async def results_of(futures: Iterable[Any]) -> list[Any]:
    """Returns the results of what already runs, in order. Raises the first one's exception, after all ended."""
    results = []
    failure: Exception | None = None
    for future in futures:
        try:
            results.append(await future)
        except Exception as error:  # noqa: BLE001 - raised again below, once nothing runs any more
            failure = failure or error
    if failure is not None:
        raise failure
    return results


async def wait_for_any(net: NetworkSelector, futures: Iterable[Any], until: float) -> None:
    """Waits until one of `futures` is done, or until this time of the monotonic clock."""
    woken = Future()

    def wake(_: Any = None) -> None:
        if not woken.is_done:
            woken.success(None)

    for future in futures:
        future.add_both(wake)
    timer = net.call_at(until, wake)
    try:
        await woken
    finally:
        net.cancel(timer)
