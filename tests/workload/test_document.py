"""`examples/workload/README.md`: its options exist, and its code runs as written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from examples.workload import template
from examples.workload.__main__ import build_parser
from examples.workload.producers import producer_configuration
from examples.workload.template import Record
from examples.workload.truth import Counts
from hangbench.kafka.cluster import KafkaCluster
from tests.conftest import FreshName
from tests.workload.conftest import PARTITIONS, committed_values, log_after

DOCUMENT = (Path(__file__).parents[2] / "examples" / "workload" / "README.md").read_text()
TRANSACTION, TRANSFORMATION = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


def test_its_options_and_counts_exist() -> None:
    """Every flag, and every count that the document names; no trouble is left out."""
    flags = {flag for action in build_parser()._actions for flag in action.option_strings}
    named = set(re.findall(r"(?<!-)--[a-z][a-z-]+", DOCUMENT))

    assert named <= flags
    assert {flag for flag in flags if flag.endswith(("-every", "-share"))} <= named
    assert all(f"`{count}`" in DOCUMENT for count in Counts.__annotations__)


@pytest.mark.parametrize(
    "argument", ["--abort-share=1.1", "--timeout-ms=999", "--records=0", "--rate=-1", "--seconds=inf"]
)
def test_an_option_that_makes_no_sense_is_refused(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the option's name and what is wrong with it."""
    with pytest.raises(SystemExit):
        build_parser().parse_args(["--bootstrap-server", "a:1", "--topic", "t", argument])

    assert f"argument {argument.split('=', maxsplit=1)[0]}: " in capsys.readouterr().err


def test_its_code_runs(hasty: KafkaCluster, topic: str, name: str, fresh_name: FreshName) -> None:
    """The first block writes a transaction, the second copies it with its offsets, each record once."""
    copies = hasty.topics.create(fresh_name("copies"), partitions=len(PARTITIONS))
    written = [Record(topic, partition, str(partition).encode()) for partition in PARTITIONS]
    consumer = Consumer({"bootstrap.servers": hasty.bootstrap, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in PARTITIONS])
    copied: list[Message] = []

    def transformed(message: Message) -> Record:
        copied.append(message)
        value = message.value()
        assert isinstance(value, bytes)
        return Record(copies, message.partition() or 0, value * 2)

    names: dict[str, Any] = {
        **vars(template),
        "configuration": producer_configuration(hasty.bootstrap, name, timeout_ms=60_000),
        "records": written,
        "consumer": consumer,
        "transformed": transformed,
        "running": lambda: len(copied) < len(written),
    }
    try:
        records, _, transaction = TRANSACTION.partition("\n")
        exec(records, names)  # noqa: S102 - the document's own code is what is tested
        assert names["records"] == [Record("orders", 0, b"paid")]
        names["records"] = written  # on this test's topic
        exec(transaction, names)  # noqa: S102
        exec(TRANSFORMATION, names)  # noqa: S102
        places = [TopicPartition(topic, partition) for partition in PARTITIONS]
        offsets = [place.offset for place in consumer.committed(places, 30)]
    finally:
        consumer.close()
    log_after(hasty, [name], 2)

    assert committed_values(hasty, copies) == [b"00", b"11", b"22"]
    assert offsets == [1, 1, 1]
