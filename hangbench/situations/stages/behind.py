"""Situations of clients that do not reach the brokers themselves: a gateway that hides topics, and one port-forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from hangbench.detector import Detector
from hangbench.kafka.go_between import GoBetween
from hangbench.kafka.hiding_gateway import HidingGateway
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang, plant_hang_without_id
from hangbench.kafka.second_door import TwoDoorCluster
from hangbench.play import Performance, Play
from hangbench.play import perform as perform_stage
from hangbench.situations.scene import Scene
from hangbench.situations.words import Collection, Lacking, Truth

GATEWAY = Collection("behind a gateway")
FORWARDED = Collection("port-forward")


@GATEWAY.add()
def gateway_without_internal_topics(scene: Scene) -> None:
    """A gateway shows no internal topic: nobody could ask the coordinators, whatever ListTransactions returns."""
    topic = scene.topic(partitions=3)
    scene.live(scene.client("live").open(topic, 0))
    absent = Lacking.TRANSACTION_STATE_ABSENT
    scene.expect(plant_hang(scene.bootstrap, topic, 1, scene.name("hang")), Truth.HANGING, [absent])
    unknown = plant_hang_without_id(scene.bootstrap, topic, 2, producer_id=8_600_000_001)
    scene.expect(unknown, Truth.HANGING, [absent])
    scene.must_be_incomplete = True


@FORWARDED.add()
def one_address_for_all_brokers(scene: Scene) -> None:
    """A port-forward to one of three brokers, which responds for all of them, from its own logs."""
    topic = scene.own(scene.cluster.topics.create(scene.name(), partitions=3, replication_factor=3))
    stranger = Lacking.ADDRESS_OF_ANOTHER_BROKER
    for partition in range(3):
        planted = plant_hang(scene.bootstrap, topic, partition, scene.name(f"hang-{partition}"))
        scene.expect(planted, Truth.HANGING, [stranger])
    scene.must_be_incomplete = True


def _through(door: str) -> Callable[[Play], None]:
    def timeline(play: Play) -> None:
        scenes = list(play.scenes.values())
        play.plant(scenes)
        play.ask(scenes, bootstrap=door)
        play.verify(scenes)

    return timeline


def perform_behind_a_gateway(version: str, detectors: Sequence[Detector]) -> Performance:
    with closing(HidingGateway()) as gateway:
        cluster = TwoDoorCluster(version, properties=HANGS_CAN_BE_PLANTED, advertised_ports={1: gateway.port})
        gateway.lead_to(cluster.door_ports[1])
        return perform_stage(cluster, GATEWAY.situations, detectors, _through(gateway.address))


def perform_port_forwarded(version: str, detectors: Sequence[Detector]) -> Performance:
    with closing(GoBetween()) as forward:
        advertised = dict.fromkeys((1, 2, 3), forward.port)
        cluster = TwoDoorCluster(version, nodes=3, properties=HANGS_CAN_BE_PLANTED, advertised_ports=advertised)
        forward.lead_to(cluster.door_ports[1])
        return perform_stage(cluster, FORWARDED.situations, detectors, _through(forward.address))
