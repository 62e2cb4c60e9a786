"""A detector that ends before the moment of a change has crashed; one that never comes to it cannot be judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from hangbench.detector import Detector, Look, Question, Response, When
from hangbench.play import Play, failing_alone
from hangbench.run import NOT_JUDGED, judged
from hangbench.situations.scene import Scene
from hangbench.situations.stages.moving import at_the_moment, through_a_restart
from hangbench.situations.words import Collection
from tests.hangbench.no_cluster import NoCluster

MOMENTS = Collection("moving")


@MOMENTS.add()
def changed(_: Scene) -> tuple[Mock, When]:
    """Something changes before the coordinators are listed."""
    return Mock(), When.BEFORE_LISTING


class Early(Detector):
    """It sends no request, and ends as `death` says."""

    def __init__(self, death: str | None) -> None:
        super().__init__("early")
        self.death = death

    @contextmanager
    def watching(self, question: Question) -> Iterator[Look]:
        assert question.situations == ("changed",)
        yield lambda: Response(death=self.death)


@pytest.mark.parametrize(
    ("death", "judgement"), [("it is broken", ("crashed", "crashed: it is broken")), (None, (NOT_JUDGED, ""))]
)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_crash_before_the_moment_is_a_crash(death: str | None, judgement: tuple[str, str], *, restarts: bool) -> None:
    """No broker was killed for it either."""
    detector, broker = Early(death), Mock()
    play = Play(NoCluster(), MOMENTS.situations, [detector])
    (scene,) = play.scenes.values()
    door: Any = Mock(address="127.0.0.1:9")
    with failing_alone(scene):
        if restarts:
            play.cluster = cast("Any", SimpleNamespace(brokers=[broker], wait_until_serving=Mock()))
            through_a_restart(play, scene, door, detector)
        else:
            at_the_moment(play, scene.situation, door)

    found, words = judged(scene, detector.name)
    assert found == judgement[0]
    assert judgement[1] in words
    broker.kill.assert_not_called()
