"""A consumer group that reads committed records only: a hanging transaction stops it, as it would stop an application."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

POLL_S: Final = 0.2


@contextmanager
def consumer_group(bootstrap: str, group: str, topics: Sequence[str]) -> Iterator[None]:
    """Within it, the group reads the topics to their ends and commits where it has come to."""
    ended = threading.Event()
    thread = threading.Thread(target=_read, args=(bootstrap, group, topics, ended))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _read(bootstrap: str, group: str, topics: Sequence[str], ended: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.subscribe(list(topics))
    while not ended.is_set():
        message = consumer.poll(POLL_S)
        if message is not None and _is_end(message):
            # The end's offset is behind the last marker. A record's is before it: the group would look as if it read on.
            end = TopicPartition(message.topic() or "", message.partition() or 0, message.offset() or 0)
            with suppress(KafkaException):
                consumer.commit(offsets=[end], asynchronous=True)
    consumer.close()


def _is_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001 - the client's name for it
