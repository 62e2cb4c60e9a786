"""Another cluster responds in place of the watched one: nothing of that is lost, and nothing looks healthy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from hangbench.kafka.cluster import CLUSTER_ID, KafkaCluster
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, init_producer_id, plant_hang
from hangbench.waiting import until
from tests.marks import starts
from tests.real_brokers.exporting import Exporter, Series, serving

OTHER_ID = "YW5vdGhlci1jbHVzdGVyLQ"
START = "kafka_suspect_transaction_start_timestamp_seconds"
SUCCESS = "kafka_transaction_exporter_last_cycle_success"
COMPLETE = "kafka_transaction_exporter_coverage_complete"


class OtherCluster(KafkaCluster):
    """A cluster with an id of its own."""

    def _formatted_files(self) -> Mapping[str, bytes]:
        return {
            name: content.replace(CLUSTER_ID.encode(), OTHER_ID.encode()) if name == "meta.properties" else content
            for name, content in super()._formatted_files().items()
        }


@pytest.fixture
@starts("broker")
def watched() -> Iterator[KafkaCluster]:
    """With a hang on the topic `orders`."""
    with KafkaCluster("4.3.1", properties=HANGS_CAN_BE_PLANTED) as cluster:
        cluster.topics.create("orders")
        plant_hang(cluster.bootstrap, "orders", 0, "hang")
        yield cluster


def filled(cluster: KafkaCluster) -> KafkaCluster:
    """With the same topics and nothing open."""
    cluster.topics.create("orders")
    init_producer_id(cluster.bootstrap, "healthy")
    return cluster


def is_proved(metrics: dict[str, Series]) -> bool:
    return any("hanging" in label for labels in metrics.get(START, {}) for label in labels)


def has_no_rows(metrics: dict[str, Series]) -> bool:
    return metrics.get(SUCCESS, {}).get(()) == 0 and COMPLETE not in metrics


def explained_incidents(exporter: Exporter, folder: Path) -> bytes:
    """Returns the file of incidents once it has the cause of the hang: then it does not change while the hang stays."""

    def has_cause(content: bytes) -> bool:
        return all(suspect["cause"] for each in json.loads(content)["incidents"] for suspect in each["suspects"])

    return until((folder / "state.incidents.json").read_bytes, has_cause, status=lambda: exporter.log)


def assert_nothing_is_lost(exporter: Exporter, folder: Path, kept: bytes, sentence: str) -> None:
    """While the other cluster responds."""
    exporter.until(has_no_rows)
    # Before the other cluster responds, the page says that no broker does.
    page = until(lambda: exporter.get("/")[1], lambda body: sentence in body, status=lambda: exporter.log)
    assert "No suspect" not in page
    of_cycles = [line for line in exporter.log.splitlines() if "could not be explained" not in line]
    assert "\n".join(of_cycles).count(sentence) == 1  # an explanation that is under way may fail by it as well
    assert (folder / "state.incidents.json").read_bytes() == kept
    assert len(json.loads((folder / "state.json").read_text())["transactions"]) == 1


@pytest.mark.parametrize("kind", [OtherCluster, KafkaCluster], ids=["two ids", "one id"])
def test_the_first_of_two_clusters_in_the_list_is_waited_for(
    watched: KafkaCluster, tmp_path: Path, kind: type[KafkaCluster]
) -> None:
    """It goes down and comes back: one incident, with one start; a restart in between changes nothing."""
    with kind("4.3.1", properties=HANGS_CAN_BE_PLANTED) as other:
        filled(other)
        servers = f"{watched.bootstrap},{other.bootstrap}"
        cluster_id = OTHER_ID if kind is OtherCluster else CLUSTER_ID
        sentence = f"broker at {other.bootstrap} belongs to another cluster: its cluster id is {cluster_id}"
        with serving(servers, tmp_path) as exporter:
            before = exporter.until(is_proved)[START]
            kept = explained_incidents(exporter, tmp_path)
            watched.broker(1).kill()
            assert_nothing_is_lost(exporter, tmp_path, kept, sentence)
        with serving(servers, tmp_path) as exporter:
            exporter.until(lambda metrics: metrics.get(SUCCESS, {}).get(()) == 0)
            assert sentence in exporter.log
            watched.broker(1).launch()
            after = exporter.until(is_proved)[START]

    assert after == before
    assert not list(tmp_path.glob("*-1"))
    (was,), (now_is,) = (
        json.loads(each)["incidents"] for each in (kept, (tmp_path / "state.incidents.json").read_bytes())
    )
    # A broker that has just started may leave a question open, which is an event of the same incident.
    assert {**now_is, "events": now_is["events"][: len(was["events"])]} == was


def test_a_name_that_moves_to_another_cluster_and_back(watched: KafkaCluster, tmp_path: Path) -> None:
    """The same address, first of the one cluster, then of another, and of the first again."""
    port = int(watched.bootstrap.rpartition(":")[2])
    with serving(watched.bootstrap, tmp_path) as exporter:
        before = exporter.until(is_proved)[START]
        kept = explained_incidents(exporter, tmp_path)
        watched.broker(1).kill()
        with OtherCluster("4.3.1", properties=HANGS_CAN_BE_PLANTED, port=port) as other:
            filled(other)
            assert_nothing_is_lost(exporter, tmp_path, kept, f"its cluster id is {OTHER_ID}, not {CLUSTER_ID}")
        watched.broker(1).launch()
        after = exporter.until(is_proved)[START]

    assert after == before


def test_a_state_file_of_another_cluster_is_moved_aside(watched: KafkaCluster, tmp_path: Path) -> None:
    """The settings name other servers than when it was written."""
    with serving(watched.bootstrap, tmp_path) as exporter:
        exporter.until(is_proved)
        # Written after it is published.
        until((tmp_path / "state.json").exists, status=lambda: exporter.log)
    with OtherCluster("4.3.1", properties=HANGS_CAN_BE_PLANTED) as other:
        filled(other)
        with serving(other.bootstrap, tmp_path) as exporter:
            until(lambda: exporter.metrics().get(COMPLETE, {}).get(()) == 1)
            assert "first-seen times start from now" in exporter.log
            assert "incidents start from now" in exporter.log
    aside = json.loads((tmp_path / "state.json.another-cluster-1").read_text())
    assert (aside["cluster_id"], len(aside["transactions"])) == (CLUSTER_ID, 1)
    assert (tmp_path / "state.incidents.json.another-cluster-1").exists()
