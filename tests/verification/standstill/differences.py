"""Declares where the exporter is known to say something else than the truth, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from hangbench.parties.words import NOBODY, Cause, Standstills


@dataclass(frozen=True, slots=True)
class Difference:
    """A known difference between the truth and the exporter, with the reason."""

    because: str
    of_exporter: Callable[[Standstills], Standstills]
    """Truth -> what the exporter says."""


DIFFERENCES: Final[Mapping[str, Difference]] = {
    "owner killed 7200 s new": Difference(
        "an owner whose earlier transactions the exporter has not seen, and that has no baseline, may be idle until its "
        "next checkpoint: the group, the owner and the end are named, and its silence only after half an hour here",
        lambda truth: frozenset(replace(each, cause=Cause.LIVE) for each in truth),
    ),
    "first offset of a silent owner": Difference(
        "a broker shows a first commit only where its partition is named (decision 0046): a cycle states a gap, and only "
        "`why` names the group",
        lambda _: NOBODY,
    ),
}
"""Name of a situation -> its difference."""
