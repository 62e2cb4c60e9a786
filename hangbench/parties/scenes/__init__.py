"""Holds all situations: of owners, of parties, of coordinators, and those in which nobody is held."""

from __future__ import annotations

from typing import Final

from hangbench.parties.scenes.coordinators import COORDINATORS
from hangbench.parties.scenes.nobody import NOBODY_HELD
from hangbench.parties.scenes.owners import OWNERS
from hangbench.parties.scenes.parties import PARTIES
from hangbench.parties.words import Situation

GROUPS: Final = (
    ("Owners of open transactions", OWNERS),
    ("Parties that stand still", PARTIES),
    ("Coordinators", COORDINATORS),
    ("No transaction holds anybody", NOBODY_HELD),
)
"""Heading of the table -> its situations."""
SITUATIONS: Final[tuple[Situation, ...]] = tuple(
    situation for _, collection in GROUPS for situation in collection.situations
)
VERSIONS: Final = ("4.3.1", "3.9.1")
