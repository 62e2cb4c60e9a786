"""Declares the versions of every API that the exporter encodes and decodes itself, and the range of any request.

A connection uses the highest version that its broker offers too. The versions of one row share the bytes of their
requests; a response carries its version, by which a decoder chooses the layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Api:
    """An API, and the versions of it that this exporter knows."""

    key: int
    name: str
    lowest: int
    highest: int

    def agreed(self, lowest: int, highest: int) -> int | None:
        """The highest known version in this range; None if there is none."""
        common = min(self.highest, highest)
        return common if max(self.lowest, lowest) <= common else None


LIST_OFFSETS = Api(2, "ListOffsets", 6, 6)
METADATA = Api(3, "Metadata", 11, 11)
DESCRIBE_PRODUCERS = Api(61, "DescribeProducers", 0, 0)
LIST_TRANSACTIONS = Api(66, "ListTransactions", 0, 0)
DESCRIBE_SHARE_GROUP_OFFSETS = Api(90, "DescribeShareGroupOffsets", 1, 1)


def api_of(request: Any) -> Api:
    """The known versions of the API of `request`: a RawRequest, or one of kafka-python's with a possibly narrower range."""
    lowest, highest = request._min_version, request._max_version  # noqa: SLF001 - kafka-python shows them nowhere else
    return Api(
        key=request.API_KEY,
        name=request.name.removesuffix("Request"),
        lowest=request.min_version if lowest is None else max(lowest, request.min_version),
        highest=request.max_version if highest is None else min(highest, request.max_version),
    )
