"""Compares the exporter's decoder of a response with kafka-python's: what the first accepts, both read alike."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from exporter.kafka.errors import MalformedResponseError

Decoder = Callable[[memoryview], Any]
REFUSAL_BYTES_MAX = 100_000


@dataclass(frozen=True, slots=True)
class TwoDecoders:
    """Both give the same plain values. kafka-python accepts responses that the exporter refuses: cut short, or too long."""

    ours: Decoder
    theirs: Callable[[bytes], Any]

    def same_or_refused(self, body: bytes) -> bool:
        """True if both read the same, False if the exporter refuses; anything else fails."""
        try:
            decoded = self.ours(memoryview(body))
        except MalformedResponseError:
            return False
        with suppress(UnicodeDecodeError):  # of a transactional id, which the exporter decodes on demand
            assert decoded == self.theirs(body)
        return True

    def hold_to_the_byte(self, body: bytes, more: Iterable[bytes]) -> None:
        """Not one byte of it may be missing, nor one too many."""
        assert self.same_or_refused(body)
        assert not any(self.same_or_refused(body[:end]) for end in range(len(body)))
        assert not any(self.same_or_refused(body + suffix) for suffix in more)

    def flip_every_bit(self, body: bytes) -> None:
        """Both read the same with any wrong bit, or the exporter refuses and raises only MalformedResponseError."""
        read = 0
        for bit in range(8 * len(body)):
            flipped = bytearray(body)
            flipped[bit // 8] ^= 1 << bit % 8
            read += self.same_or_refused(bytes(flipped))
        assert 0 < read < 8 * len(body)


def assert_refused_for_little(decoder: Decoder, body: bytes) -> None:
    """It is refused, and what is reserved meanwhile is not what a length in it pretends."""
    tracemalloc.start()
    try:
        with pytest.raises(MalformedResponseError):
            decoder(memoryview(body))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < REFUSAL_BYTES_MAX
