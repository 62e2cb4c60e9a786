"""Many clusters in one daemon: each has its own pace, settings, memory and pages, and a failure costs one of them."""

from __future__ import annotations

import json
import re
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from exporter.commands.context import Context
from exporter.config.fleet import load_fleet
from exporter.config.loading import load
from exporter.config.settings import ClusterSettings
from exporter.daemon.baseline_file import BaselineFile
from exporter.daemon.daemon import Daemon
from exporter.daemon.reload import Reloaded, Reloader
from exporter.daemon.scheduler import Order, Orders
from exporter.evaluation.verdicts import Evaluation
from exporter.log_format import formatter_of
from exporter.snapshot import Snapshot
from exporter.status import HistoryStatus
from hangbench.waiting import until
from tests.baselines import DAY_MS, document
from tests.daemon.fleets import FLAGS, Scripts, fleet, healthy
from tests.daemon.stand_ins import Reloads, Script, cycle, down, get, hang
from tests.evaluation.builders import NOW_MS, Entry, snapshot, transaction


def successes(daemon: Daemon) -> dict[str, str]:
    found = re.findall(r'last_cycle_success\{cluster="([^"]*)"\} (\d)', get(daemon, "/metrics")[1])
    return dict(found)


def test_a_cluster_that_fails_costs_itself() -> None:
    """Its rows are missing and its failure is shown; the other's rows are in the same publication, each with its label."""
    scripts = Scripts(good=Script(healthy("id-good")), dead=Script(down()))
    daemon = Daemon(fleet("good", "dead"), scripts)
    cycle(daemon)

    published = get(daemon, "/metrics")[1]
    assert successes(daemon) == {"good": "1", "dead": "0"}
    assert 'kafka_late_transactions{cluster="good"} 0' in published
    assert 'kafka_late_transactions{cluster="dead"}' not in published
    assert "no broker responded" in get(daemon, "/clusters/dead")[1]
    assert get(daemon, "/clusters/nobody")[0] == 404
    overview = get(daemon, "/")[1]
    assert overview.index("/clusters/dead") < overview.index("/clusters/good")
    assert get(daemon, "/-/ready")[0] == 200


def test_an_incident_has_its_page_below_its_cluster() -> None:
    """And all of them are in one list, which is where alerts link to; two may begin at the same instant."""
    hung = [snapshot([Entry()], taken_at_ms=NOW_MS), hang()]
    scripts = Scripts(east=Script(*hung), west=Script(*hung))
    daemon = Daemon(fleet("east", "west"), scripts)
    cycle(daemon)
    cycle(daemon)

    listed = get(daemon, "/incidents")[1]
    paths = re.findall(r'href="(/clusters/\w+/incidents/[^"]+)"', listed)
    assert [path.split("/")[2] for path in paths] == ["east", "west"]
    for path in paths:
        status, page = get(daemon, path)
        assert (status, "hanging" in page) == (200, True)
    assert '<a href="/clusters/east/incidents">incidents</a>' in get(daemon, "/clusters/east")[1]


def test_log_lines_name_the_cluster(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each format; a daemon of one cluster has no such name."""
    lines: list[str] = []
    formatter = formatter_of("logfmt", on_terminal=False)
    monkeypatch.setattr(caplog.handler, "emit", lambda record: lines.append(formatter.format(record)))
    cycle(Daemon(fleet("good", "dead"), Scripts(good=Script(healthy("g")), dead=Script(down()))))

    (failed,) = (line for line in lines if "no broker responded" in line)
    assert "cluster=dead" in failed
    assert all("cluster=" in line for line in lines)


def test_a_cluster_has_its_own_settings() -> None:
    """Those of its block, and for the rest those of the fleet; each interval is scheduled and published."""
    settings = fleet("slow", "fast", more="    scan: {interval: 1m}\n    verdicts: {late_padding: 1h}\n")
    daemon = Daemon(settings, Scripts(slow=Script(), fast=Script()))
    daemon.scheduler.timetable.use(daemon.jobs)
    intervals = daemon.scheduler.timetable.intervals_s

    assert intervals == {"slow": 60, "fast": 10}
    published = get(daemon, "/metrics")[1]
    assert 'kafka_transaction_exporter_cycle_interval_seconds{cluster="slow"} 60' in published
    assert 'kafka_transaction_exporter_cycle_interval_seconds{cluster="fast"} 10' in published
    padding = [cluster.settings.verdicts.late_padding_ms for cluster in daemon.jobs.values()]
    assert padding == [3_600_000, 300_000]


class Kept:
    """A history that keeps how many partitions each cycle had."""

    def __init__(self) -> None:
        self.partitions: list[int] = []
        self.names: list[str | None] = []

    def record(self, evaluation: Evaluation, _interval_ms: int, cluster_name: str | None = None, *_: Any) -> None:
        self.partitions.append(len(evaluation.snapshot.partitions))
        self.names.append(cluster_name)

    def start(self) -> None: ...

    def close(self) -> None: ...

    def status(self) -> HistoryStatus:
        return HistoryStatus()


def open_for_a_second(partitions: int, **ids: str) -> Snapshot:
    """With the ids of these topics."""
    taken = snapshot([Entry()], transactions=(transaction(start_ms=NOW_MS - 1000),), partitions=partitions)
    return replace(taken, partitions=replace(taken.partitions, topics=tuple(ids), topic_ids=tuple(ids.values())))


@pytest.mark.parametrize(
    ("topics", "is_another"),
    [
        ({"orders": "b"}, True),
        ({"orders": "a"}, False),  # one cluster, watched twice
        ({"orders": "b", "payments": "p"}, False),  # a topic was made again between two cycles
        ({"orders": ""}, False),
        ({"orders": "b", "payments": ""}, True),
    ],
)
def test_of_two_clusters_with_one_id_the_first_is_recorded(
    topics: dict[str, str], *, is_another: bool, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """And compared with baselines: where nothing but the id tells clusters apart, they would be one cluster."""
    one, other = open_for_a_second(1, orders="a", payments="p"), open_for_a_second(2, **topics)
    history, path = Kept(), tmp_path / "baselines.json"
    path.write_text(json.dumps(document()))
    baseline = BaselineFile(path, (), age_ms_max=2 * DAY_MS, wall_clock=lambda: NOW_MS / 1000)
    scripts = Scripts(one=Script(one, one), other=Script(other, other))
    daemon = Daemon(fleet("one", "other"), scripts, history=history, baseline=baseline)
    with caplog.at_level("WARNING"):
        cycle(daemon)
        cycle(daemon)

    assert history.partitions == ([1, 1] if is_another else [1, 2, 1, 2])
    assert set(history.names) == ({"one"} if is_another else {"one", "other"})
    published = get(daemon, "/metrics")[1]
    assert f"kafka_transaction_exporter_history_writing {0 if is_another else 1}\n" in published
    unusual = re.findall(r'unusually_long_transactions\{cluster="(\w+)",.*\} 1\n', published)
    assert unusual == (["one"] if is_another else ["one", "other"])
    assert successes(daemon) == {"one": "1", "other": "1"}
    named = [
        line for line in caplog.messages if "cluster one has the same cluster id, cluster-1, and other topics" in line
    ]
    assert len(named) == is_another
    twice = [line for line in caplog.messages if "cluster one is the same one, cluster-1, with the same topics" in line]
    assert len(twice) == (topics in ({"orders": "a"}, {"orders": "b", "payments": "p"}))


def test_a_changed_file_adds_and_removes_clusters() -> None:
    """One that stays keeps its state and its connections; one that is gone loses its connections, its job and its pages."""
    scripts = Scripts(stays=Script(healthy("s")), goes=Script(healthy("g")), comes=Script(healthy("c")))
    reloads = Reloads(Reloaded(fleet("stays", "comes")))
    daemon = Daemon(fleet("stays", "goes"), scripts, reloader=cast("Reloader", reloads))
    daemon.scheduler.timetable.use(daemon.jobs)
    cycle(daemon)
    before = daemon.jobs["stays"]

    daemon.scheduler.reload(only_if_changed=False)
    jobs = set(daemon.scheduler.timetable.intervals_s)

    assert daemon.jobs["stays"] is before
    assert (scripts.closed, jobs) == (["goes"], {"stays", "comes"})
    assert (get(daemon, "/clusters/goes")[0], get(daemon, "/clusters/comes")[0]) == (404, 200)
    published = get(daemon, "/metrics")[1]
    assert 'cycles_total{cluster="stays"} 1' in published
    assert 'cycles_total{cluster="comes"} 0' in published
    assert 'cluster="goes"' not in published


@pytest.mark.parametrize(("changed", "reconnects"), [("a", ["east"]), ("c", []), ("ac", ["east"]), ("b", ["west"])])
def test_a_rotated_file_reconnects_the_clusters_that_use_it(
    changed: str, reconnects: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others keep their connections."""
    used: list[str] = []
    scripts = Scripts(east=Script(healthy("e"), healthy("e")), west=Script(healthy("w"), healthy("w")))
    for name, script in scripts.scripts.items():
        monkeypatch.setattr(
            script, "use", lambda *_, reconnect, name=name: used.append(name) if reconnect else None, raising=False
        )
    settings = fleet("east", "west")
    east, west = settings.clusters
    daemon = Daemon(settings, scripts)
    cycle(daemon)
    clusters = (
        ClusterSettings(name="east", settings=east.settings, files=(Path("a"),)),
        ClusterSettings(name="west", settings=west.settings, files=(Path("b"),)),
    )
    daemon._watch(clusters, frozenset(Path(letter) for letter in changed))
    cycle(daemon)

    assert used == reconnects


def test_the_limit_of_partition_series_is_of_the_whole_exposition() -> None:
    """Two clusters below it are together beyond it: resting partitions have no series then, and a gauge shows it."""
    scripts = Scripts(
        one=Script(*[healthy("one", partitions=6)] * 2), other=Script(*[healthy("other", partitions=6)] * 2)
    )
    limited = 'kafka_transaction_exporter_partition_series_limited{cluster="one"}'
    seen = []
    for limit in ("12", "11"):
        daemon = Daemon(fleet("one", "other", publish__partition_series_limit=limit), scripts)
        scripts.scripts["one"].results = [healthy("one", partitions=6)] * 2
        scripts.scripts["other"].results = [healthy("other", partitions=6)] * 2
        cycle(daemon)
        cycle(daemon)
        published = get(daemon, "/metrics")[1]
        seen.append((f"{limited} 1" in published, published.count("\nkafka_partition_max_active_transaction_duration")))
    assert seen == [(False, 12), (True, 2)]


class Silent(Script):
    """A cluster whose cycle does not end before it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def collect(self, **_: object) -> Snapshot:
        self.released.wait()
        raise down()


@contextmanager
def running(daemon: Daemon, orders: Orders) -> Iterator[None]:
    thread = threading.Thread(target=daemon.run)
    thread.start()
    try:
        yield
    finally:
        orders.put(Order.STOP)
        thread.join(20)
        assert not thread.is_alive()


def test_silent_clusters_delay_nobody() -> None:
    """Forty whose cycles do not end; the others have their cycles, and those forty are counted as missed."""
    names = [f"silent-{number}" for number in range(40)]
    silent = {name: Silent() for name in names}
    scripts = Scripts(**silent, well=Script(*[healthy("w")] * 1000))
    orders = Orders()
    settings = fleet(*names, "well", scan__interval="200ms", scan__deadline="150ms")
    daemon = Daemon(settings, scripts, orders=orders)
    try:
        with running(daemon, orders):
            until(lambda: _count(daemon, "cycles_total", "well") >= 5, status=lambda: get(daemon, "/metrics")[1][:2000])
            until(lambda: _count(daemon, "cycles_missed_total", names[0]) >= 2)
            assert get(daemon, "/-/healthy")[0] == 200
            for one in silent.values():
                one.released.set()
    finally:
        for one in silent.values():
            one.released.set()


def test_a_publication_that_fails_is_logged_and_the_next_one_is_made(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that publishes a fleet does not end with a defect."""
    scripts = Scripts(a=Script(*[healthy("a")] * 1000), b=Script(*[healthy("b")] * 1000))
    orders = Orders()
    daemon = Daemon(fleet("a", "b", scan__interval="200ms", scan__deadline="150ms"), scripts, orders=orders)
    joined, fails = daemon._publisher._renderer.joined, [True]

    def failing(*arguments: Any) -> Any:
        if fails.pop() if fails else False:
            raise ValueError("a defect")
        return joined(*arguments)

    monkeypatch.setattr(daemon._publisher._renderer, "joined", failing)
    with running(daemon, orders):
        until(lambda: _count(daemon, "cycles_total", "a") >= 2)
    assert caplog.text.count("could not be published") == 1


@pytest.mark.parametrize("breaks", ["while they are read", "while they are applied"])
def test_settings_that_cannot_be_applied_do_not_end_the_loop(
    breaks: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate that has gone since the settings were checked, or an error that nobody thought of."""
    scripts = Scripts(stays=Script(healthy("s")))
    reloads = Reloads(Reloaded(fleet("stays", "comes")))
    if breaks == "while they are read":
        monkeypatch.setattr(reloads, "now", Mock(side_effect=RuntimeError("a defect")))
    daemon = Daemon(fleet("stays"), scripts, reloader=cast("Reloader", reloads))
    daemon.scheduler.timetable.use(daemon.jobs)
    daemon.scheduler.reload(only_if_changed=False)  # there is no script for the new cluster

    assert "the settings could not be applied completely" in caplog.text
    assert reloads.taken_back == 1
    cycle(daemon)
    assert successes(daemon) == {"stays": "1"}


def _count(daemon: Daemon, name: str, cluster: str) -> int:
    found = re.search(rf'kafka_transaction_exporter_{name}{{cluster="{cluster}"}} (\d+)', get(daemon, "/metrics")[1])
    return 0 if found is None else int(found[1])


def test_clusters_with_the_same_brokers_have_state_files_of_their_own(tmp_path: Path) -> None:
    """As where two entries read different topics of one cluster; others keep the name that they had without a fleet."""
    text = "clusters:\n" + "".join(
        f"  {name}: {{kafka: {{bootstrap.servers: '{brokers}'}}}}\n"
        for name, brokers in (("a", "x:1"), ("b", "x:1"), ("c", "y:1"))
    )
    settings = load_fleet(("fleet.yaml", text), flags=FLAGS).settings
    context = Context(options=Namespace(), state_folder=tmp_path, may_colour=False)
    paths = [context.state_path(settings, cluster.settings) for cluster in settings.clusters]
    alone = load(file=None, environment={}, flags={**FLAGS, "kafka.bootstrap.servers": "y:1"}).settings

    assert len(set(paths)) == 3
    assert paths[2] == context.state_path(alone, alone)


def test_each_cluster_has_its_own_state_file(tmp_path: Path) -> None:
    """What one of them has seen is known to it alone after a restart."""

    def state_path_of(cluster: ClusterSettings) -> Path:
        return tmp_path / f"{cluster.name}.json"

    cycle(Daemon(fleet("a", "b"), Scripts(a=Script(healthy("id-a")), b=Script(down())), state_path_of=state_path_of))
    again = Scripts(a=Script(healthy("id-a")), b=Script(healthy("id-b")))
    cycle(Daemon(fleet("a", "b"), again, state_path_of=state_path_of))

    assert again.scripts["a"].seen_before == [[("orders", 0, 7, 100, "")]]
    assert again.scripts["b"].seen_before == [[]]
