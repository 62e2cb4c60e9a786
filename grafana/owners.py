"""The choice of an application's owner: a consumer group and a transactional id.

Few series have such a label. The others are chosen by their partition, where the group is blocked or the id has a suspect.
"""

from __future__ import annotations

from typing import Final

from grafana.queries import PARTITION, series

GROUP, TRANSACTIONAL_ID = "group", "transactional_id"
"""Labels, and the variables with these names."""
CHOSEN_GROUP: Final = f'{GROUP}=~"${GROUP}"'
CHOSEN_ID: Final = f'{TRANSACTIONAL_ID}=~"${TRANSACTIONAL_ID}"'
SUSPECTS: Final = "kafka_suspect_transaction_start_timestamp_seconds"
BLOCKED: Final = "kafka_consumer_group_blocked_since_timestamp_seconds"


def with_group(name: str, matchers: str) -> str:
    """The series of `name` on partitions where a chosen group is blocked; all of them while all groups are chosen."""
    return _on_partitions_of(BLOCKED, CHOSEN_GROUP, name, matchers)


def with_id(name: str, matchers: str) -> str:
    """The series of `name` on partitions where a chosen id has a suspect; all of them while all ids are chosen."""
    return _on_partitions_of(SUSPECTS, CHOSEN_ID, name, matchers)


def with_both(name: str, matchers: str) -> str:
    """The series of `name` on partitions with a chosen group and a chosen id."""
    return f"({with_group(name, matchers)} and on ({PARTITION}) {with_id(name, matchers)})"


def _on_partitions_of(finder: str, choice: str, name: str, matchers: str) -> str:
    # All is a pattern that a series without the label matches, too; a name is not.
    everything = series(name, f"{matchers}, {choice}")
    return f"({everything} or {series(name, matchers)} and on ({PARTITION}) {series(finder, choice)})"
