"""Makes the subsets of rights with which a schedule may begin: by chance, or all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

from tests.verification.model.events import Event
from tests.verification.model.grants import ALL, DESCRIBE, NONE, READ
from tests.verification.model.image import STATE_TOPIC

AUTHORIZE = Event("authorize")
_TAKEN = (
    *(Event("set_topic_right", (topic, level)) for topic in ("t", "u", STATE_TOPIC) for level in (DESCRIBE, NONE)),
    *(Event("set_id_right", (which,)) for which in (NONE, "a")),
    *(Event("set_cluster_right", (name, False)) for name in ("DESCRIBE", "DESCRIBE_CONFIGS")),
)
"""ALTER is not among them: without it nothing is ever written."""
_TAKEN_MAX = 3


def some_subset(rng: random.Random) -> tuple[Event, ...]:
    """Every right but up to three: with fewer rights hardly anything is proved, and nothing is written."""
    return (AUTHORIZE, *rng.sample(_TAKEN, rng.randint(0, _TAKEN_MAX)))


def every_subset() -> Iterator[tuple[Event, ...]]:
    """READ, DESCRIBE or nothing on each topic; all ids, one or none; with and without each right on the cluster."""
    levels = (READ, DESCRIBE, NONE)
    for t, u, state, ids, describe, configs in product(
        levels, levels, levels, (ALL, "a", NONE), *([(True, False)] * 2)
    ):
        yield (
            AUTHORIZE,
            *(Event("set_topic_right", each) for each in (("t", t), ("u", u), (STATE_TOPIC, state)) if each[1] != READ),
            *((Event("set_id_right", (ids,)),) if ids != ALL else ()),
            *(
                Event("set_cluster_right", (name, False))
                for name, is_granted in (("DESCRIBE", describe), ("DESCRIBE_CONFIGS", configs))
                if not is_granted
            ),
        )
