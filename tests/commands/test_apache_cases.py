"""The cases of Apache Kafka's own TransactionsCommandTest that are about the command line alone, one for one.

Those of find-hanging that are about the cluster are situations (tests/verification/situations), those of the other
commands are in tests/real_brokers/test_command_line.py and test_marker_refused.py.
"""

from __future__ import annotations

import pytest

from exporter.cli import main
from exporter.commands.status import ExitStatus


@pytest.mark.parametrize(
    ("case", "arguments", "lacking"),
    [
        ("testDescribeProducersTopicRequired", ("describe-producers", "--partition", "0"), "--topic"),
        ("testDescribeProducersPartitionRequired", ("describe-producers", "--topic", "foo"), "--partition"),
        ("testDescribeTransactionsTransactionalIdRequired", ("describe",), "--transactional-id"),
        (
            "testDescribeTransactionsStartOffsetOrProducerIdRequired",
            ("abort", "--topic", "foo", "--partition", "0"),
            "--start-offset",
        ),
        (
            "testDescribeTransactionsTopicRequired",
            ("abort", "--partition", "0", "--start-offset", "9990"),
            "--topic",
        ),
        (
            "testDescribeTransactionsPartitionRequired",
            ("abort", "--topic", "foo", "--start-offset", "9990"),
            "--partition",
        ),
        (
            "testDescribeTransactionsProducerEpochRequiredWithProducerId",
            ("abort", "--topic", "foo", "--partition", "0", "--producer-id", "12345"),
            "--producer-epoch",
        ),
        (
            "testDescribeTransactionsCoordinatorEpochRequiredWithProducerId",
            ("abort", "--topic", "foo", "--partition", "0", "--producer-id", "12345", "--producer-epoch", "15"),
            "--coordinator-epoch",
        ),
        (
            "testFindHangingRequiresTopicIfPartitionIsSpecified",
            ("find-hanging", "--broker-id", "0", "--partition", "5"),
            "--topic",
        ),
        ("testForceTerminateTransactionTransactionalIdRequired", ("force-terminate",), "--transactional-id"),
    ],
)
def test_what_the_java_tool_refuses_is_refused(
    case: str, arguments: tuple[str, ...], lacking: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2 and the option that is lacking, before any broker is asked."""
    assert status_of(*arguments) == ExitStatus.WRONG_USAGE, case
    assert lacking in capsys.readouterr().err


def test_find_hanging_needs_neither_broker_nor_topic(capsys: pytest.CaptureFixture[str]) -> None:
    """testFindHangingRequiresEitherBrokerIdOrTopic, the other way on purpose: without either it covers the cluster."""
    assert status_of("find-hanging") == ExitStatus.COULD_NOT_RUN
    assert "127.0.0.1:1 cannot be connected to" in capsys.readouterr().err


def status_of(*arguments: str) -> int:
    """The exit status, also where argparse ends the program."""
    try:
        return main(["--bootstrap-server", "127.0.0.1:1", *arguments])
    except SystemExit as end:
        return int(end.code or 0)
