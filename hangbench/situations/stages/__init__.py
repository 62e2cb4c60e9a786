"""One file for each kind of cluster: its situations, and `perform(version)` that plays them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hangbench.detector import Detector
from hangbench.play import Performance
from hangbench.situations.stages import behind, careless, cut_off, guarded, issues, moving, nodes, still
from hangbench.situations.words import Collection, Situation


@dataclass(frozen=True, slots=True)
class Stage:
    """A kind of cluster and what is played on it."""

    name: str
    title: str
    sentence: str
    collections: tuple[Collection, ...]
    perform: Callable[[str, Sequence[Detector]], Performance]
    """On brokers of this version, for these detectors."""
    is_used_up: bool = False
    """True where a look takes place in the middle of changes: each detector then has a performance of its own."""

    @property
    def situations(self) -> tuple[Situation, ...]:
        return tuple(situation for collection in self.collections for situation in collection.situations)


STAGES = (
    Stage(
        "still",
        "Situations that keep still",
        "One node; all of them side by side.",
        (still.STILL, still.ASKED),
        still.perform,
    ),
    Stage(
        "moving",
        "Situations that change during a look",
        "One node behind a proxy that makes the change just before a chosen request of the detector.",
        (moving.MOMENTS, moving.RESTLESS, moving.RESTART),
        moving.perform,
        is_used_up=True,
    ),
    Stage(
        "careless",
        "Coordinators that do not do their work",
        "One node that never checks for timed-out transactions and removes ids after a few seconds.",
        (careless.IMPATIENT, careless.PATIENT, careless.AHEAD, careless.BEHIND),
        careless.perform,
    ),
    Stage(
        "guarded",
        "What may not be seen",
        "One node with the StandardAuthorizer; every user sees the same transactions with different grants.",
        (guarded.GRANTED, guarded.DENIED),
        guarded.perform,
    ),
    Stage(
        "nodes",
        "Brokers that are gone",
        "Three nodes; one replica of `__transaction_state`.",
        (nodes.SILENT, nodes.GIVEN_UP, nodes.BACK, nodes.LAGGING, nodes.SKIPPED, nodes.DATA_ONLY),
        nodes.perform,
        is_used_up=True,
    ),
    Stage(
        "cut off",
        "A broker that is cut off",
        "Three brokers and a controller; broker 1 gets the first request, is cut off from all others, and continues "
        "to respond.",
        (cut_off.CUT_OFF, cut_off.ALONE),
        cut_off.perform,
        is_used_up=True,
    ),
    Stage(
        "issues",
        "Faults of Kafka itself",
        "One node as Kafka comes.",
        (issues.ISSUES,),
        issues.perform,
    ),
    Stage(
        "behind a gateway",
        "Clients that do not reach the brokers themselves",
        "One node behind a gateway that shows no internal topic.",
        (behind.GATEWAY,),
        behind.perform_behind_a_gateway,
    ),
    Stage(
        "port-forward",
        "One address for all brokers",
        "Three brokers that advertise one address.",
        (behind.FORWARDED,),
        behind.perform_port_forwarded,
    ),
)
VERSIONS = ("4.3.1", "3.9.1")
