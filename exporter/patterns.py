"""Checks regular expressions from settings, and maps transactional ids to groups by them.

Expressions that could take long to match names that any client chooses are refused.
Python's `re` backtracks while it holds the interpreter's lock: `(a+)+$` on 40 characters stops the whole process. So the
exporter counts the ways to match before it accepts a pattern, and long names match nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

try:
    from re import _constants as constants  # type: ignore[attr-defined]  # not typed
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as constants
    import sre_parse as parser

CHARACTERS_MAX: Final = 255
WAYS_MAX: Final = 20_000_000
"""Three times `.*` in a row, and 0.03 s for the worst name; 0.4 s if a pattern has as many ways without that."""

GroupRules = Sequence[tuple[str, re.Pattern[str]]]
"""(group, pattern), in order."""

OTHER_GROUP: Final = "other"
"""Group of ids that no rule matches."""
PREFIXES_MAX: Final = 20
"""Groups by prefix, where no group is configured."""
_SEPARATORS: Final = "-_.:/"

_SINGLE: Final = {
    constants.LITERAL,
    constants.NOT_LITERAL,
    constants.ANY,
    constants.IN,
    constants.AT,
    constants.GROUPREF,
}
_REPEATS: Final = {constants.MAX_REPEAT, constants.MIN_REPEAT}


def compile_bounded(text: str) -> re.Pattern[str]:
    """The pattern; raises `re.error` if it is not one, ValueError if there are too many ways to match it."""
    pattern = re.compile(text)
    if _ways(parser.parse(text)) > WAYS_MAX:
        raise ValueError(
            "matching could take too long: use `.*`, `+` and similar repetitions at most three times, and not "
            "inside another repetition"
        )
    return pattern


def is_matched(pattern: re.Pattern[str], name: str) -> bool:
    """True if the pattern matches the whole name, and the name is not too long."""
    return len(name) <= CHARACTERS_MAX and pattern.fullmatch(name) is not None


def meant_by_glob(pattern: str) -> str | None:
    """The expression that was probably meant by `order*` or `*-dlq`; None for others.

    As an expression the former matches `orde`, `order` and `orderr`, and the latter is none.
    """
    return pattern.replace("*", ".*") if re.fullmatch(r"[\w.-]*[\w-]\*|\*[\w.-]*", pattern) else None


def prefix_of(transactional_id: str) -> str:
    """The id up to its last separator: `orders` of `orders-7`; the id itself without one."""
    at = max(transactional_id.rfind(separator) for separator in _SEPARATORS)
    return transactional_id[:at] if at > 0 else transactional_id


def group_of(rules: GroupRules, transactional_id: str) -> str:
    return next((name for name, match in rules if is_matched(match, transactional_id)), OTHER_GROUP)


def _ways(tokens: Iterable[tuple[Any, Any]]) -> int:
    """Counts the ways in which a name may be divided among the parts of a pattern, at most."""
    ways = 1
    for operation, given in tokens:
        ways = min(ways * _ways_of(operation, given), WAYS_MAX + 1)
    return ways


def _ways_of(operation: Any, given: Any) -> int:
    if operation in _SINGLE:
        return 1
    if operation is constants.SUBPATTERN:
        return _ways(given[3])
    if operation is constants.BRANCH:
        return sum(_ways(branch) for branch in given[1])
    if operation in {constants.ASSERT, constants.ASSERT_NOT}:
        return _ways(given[1])
    if operation in _REPEATS:
        fewest, most, repeated = given
        once, longest = _ways(repeated), min(int(most), CHARACTERS_MAX)
        if once == 1:
            return max(longest - int(fewest), 0) + 1
        return sum(min(once**times, WAYS_MAX + 1) for times in range(min(int(fewest), longest), longest + 1))
    return WAYS_MAX + 1
