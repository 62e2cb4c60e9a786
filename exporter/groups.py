"""Maps transactional ids to groups: the first rule that matches the whole id names its group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from exporter.patterns import is_matched

GroupRules = Sequence[tuple[str, re.Pattern[str]]]
"""(group, pattern), in order."""

OTHER_GROUP: Final = "other"
"""Of ids that no rule matches."""


def group_of(rules: GroupRules, transactional_id: str) -> str:
    """The name of the group."""
    return next((name for name, match in rules if is_matched(match, transactional_id)), OTHER_GROUP)
