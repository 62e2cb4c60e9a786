"""Makes names from the ACLs: if all of these are visible to the exporter, every name is.

The visibility of a name depends on the patterns that match it. So there is one name for each pattern that no longer pattern
matches, and one more that no pattern matches: a random name may match one by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

WILDCARD = "*"

Patterns = frozenset[tuple[bool, str]]
"""(is prefixed, name) of the resources that some ACL names."""


def probes(patterns: Patterns, made_up: Callable[[str], Iterable[str]]) -> Iterator[str | None]:
    """A name for each pattern and one for none; None if every candidate matches a longer pattern.

    `made_up`: names that begin with a prefix, each with another character after it.
    """
    prefixes = {name for is_prefixed, name in patterns if is_prefixed}
    for is_prefixed, name in [(True, ""), *patterns]:
        if is_prefixed:
            yield _outside(
                {prefix for prefix in prefixes if len(prefix) > len(name) and prefix.startswith(name)}, made_up(name)
            )
        elif name != WILDCARD:
            yield name


def _outside(longer: Collection[str], candidates: Iterable[str]) -> str | None:
    return next(
        (candidate for candidate in candidates if not any(candidate.startswith(other) for other in longer)), None
    )
