"""SCRAM with RFC 7677's minimum of iterations, which kafka-python does not check."""

from __future__ import annotations

from typing import Any, Final

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.scram import SaslMechanismScram, ScramClient

ITERATIONS_MIN: Final = 4096
"""Minimum of iterations: with one, a broker's place could test billions of passwords a second against the proof that it
is sent.
"""


class Scram(SaslMechanismScram):  # type: ignore[misc]
    """kafka-python's mechanism with the checking client."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._scram_client = CheckingClient(
            config["sasl_plain_username"], config["sasl_plain_password"], config["sasl_mechanism"]
        )


class CheckingClient(ScramClient):  # type: ignore[misc]
    """A client that sends no proof made with too few iterations."""

    def create_salted_password(self, salt: bytes, iterations: int) -> None:
        """Raises ValueError before anything is derived from the password."""
        if iterations < ITERATIONS_MIN:
            raise ValueError(
                f"the broker asks for {iterations} SCRAM iterations, fewer than {ITERATIONS_MIN}: no proof is sent"
            )
        super().create_salted_password(salt, iterations)


def register() -> None:
    """Has kafka-python use this mechanism."""
    for name in ScramClient.MECHANISMS:
        register_sasl_mechanism(name, Scram, overwrite=True)
