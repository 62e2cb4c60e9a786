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


PREFIXES_MAX: Final = 20
"""Groups by prefix, where no group is configured."""
_SEPARATORS: Final = "-_.:/"


def prefix_of(transactional_id: str) -> str:
    """The id up to its last separator: `orders` of `orders-7`; the id itself without one."""
    at = max(transactional_id.rfind(separator) for separator in _SEPARATORS)
    return transactional_id[:at] if at > 0 else transactional_id


def group_of(rules: GroupRules, transactional_id: str) -> str:
    """The name of the group."""
    return next((name for name, match in rules if is_matched(match, transactional_id)), OTHER_GROUP)
