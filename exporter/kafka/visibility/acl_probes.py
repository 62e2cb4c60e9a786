"""Makes names from the ACLs: if all of these are visible to the exporter, every name is.

The visibility of a name depends on the patterns that match it, and on nothing else (StandardAuthorizer): its literal name,
the prefixes that it begins with, and `*`. So there is one name for each pattern that no longer pattern matches, and one
more that no pattern matches: a random name may match one by chance. A DENY needs no rule of its own, whoever it is for:
the name that is made for its pattern is refused if it concerns this exporter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from exporter.kafka.messages.describe_acls import Patterns

WILDCARD = "*"


def probes(patterns: Patterns, made_up: Callable[[str], Iterable[str]]) -> Iterator[str | None]:
    """A name for each pattern and one for none; None if every candidate matches a longer pattern.

    `made_up`: names that begin with a prefix, each with another character after it.
    """
    prefixes = {name for is_prefixed, name in patterns if is_prefixed}
    for is_prefixed, name in [(True, ""), *patterns]:
        if is_prefixed:
            yield next((one for one in made_up(name) if not _has_longer_prefix(one, len(name), prefixes)), None)
        elif name != WILDCARD:
            yield name


def _has_longer_prefix(name: str, length: int, prefixes: Collection[str]) -> bool:
    return any(name[:end] in prefixes for end in range(length + 1, len(name) + 1))
