"""Two decoders of one answer, of which the slow one is the specification: they read the same, or refuse."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from exporter.kafka.errors import MalformedAnswerError

Decoder = Callable[[memoryview], Any]
REFUSAL_BYTES_MAX = 100_000


@dataclass(frozen=True, slots=True)
class TwoDecoders:
    quick: Decoder
    slow: Decoder

    def same_or_refused(self, body: bytes) -> bool:
        """True when both read the same, False when both refuse; anything else fails."""
        try:
            told = self.slow(memoryview(body))
        except MalformedAnswerError:
            with pytest.raises(MalformedAnswerError):
                self.quick(memoryview(body))
            return False
        assert self.quick(memoryview(body)) == told
        return True

    def hold_to_the_byte(self, body: bytes, more: Iterable[bytes]) -> None:
        """Not one byte of it may be missing, nor one too many."""
        assert self.same_or_refused(body)
        assert not any(self.same_or_refused(body[:end]) for end in range(len(body)))
        assert not any(self.same_or_refused(body + it) for it in more)

    def flip_every_bit(self, body: bytes) -> None:
        """Whatever bit is wrong, both agree, and nothing but MalformedAnswerError is raised."""
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
        with pytest.raises(MalformedAnswerError):
            decoder(memoryview(body))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < REFUSAL_BYTES_MAX
