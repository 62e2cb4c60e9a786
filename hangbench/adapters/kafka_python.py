"""kafka-python's `KafkaAdminClient.find_hanging_transactions`, with a limit of 0: it goes by the age at the coordinator."""

from __future__ import annotations

import kafka

from hangbench.adapters.answer import answer, asked, give_up

PADDING_MS = 5 * 60 * 1000
"""It adds these to the limit."""


def main() -> None:
    login = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": asked("USER"),
        "sasl_plain_password": asked("PASSWORD"),
    }
    try:
        admin = kafka.KafkaAdminClient(
            bootstrap_servers=asked("BOOTSTRAP").split(","),
            request_timeout_ms=int(asked("REQUEST_TIMEOUT_MS")),
            **(login if asked("USER") else {}),
        )
        found = admin.find_hanging_transactions(max_transaction_timeout_ms=-PADDING_MS)
    except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
        give_up(f"{type(error).__name__}: {error}")
    answer(
        (topic, partition, transaction["producer_id"], "hanging")
        for transaction in found
        for topic, partition in transaction["topic_partitions"]
    )


if __name__ == "__main__":
    main()
