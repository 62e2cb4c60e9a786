"""Runs one test for many cases: it goes through all of them and lists those that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from itertools import product
from typing import Any

import pytest


def _name(case: object) -> str:
    return case.name if isinstance(case, Enum) else str(case)


def each(
    *cases: Iterable[Any], name: Callable[[Any], str] = _name
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a check of one case a test of every case, or of every combination where there are several kinds.

    In place of `pytest.mark.parametrize` where a case is not a test of its own: no case has fixtures.
    """
    combinations = list(product(*cases))
    assert combinations, "a test of no case cannot fail"

    def of_all(check: Callable[..., None]) -> Callable[..., None]:
        def test(subtests: pytest.Subtests) -> None:
            for combination in combinations:
                with subtests.test(" ".join(name(value) for value in combination)):
                    check(*combination)

        test.__name__, test.__module__, test.__doc__ = check.__name__, check.__module__, check.__doc__
        return test

    return of_all
