"""The daemon's loop: what it publishes after failures, when data is stale, and when the loop is dead."""

from __future__ import annotations

import re
import threading
from html import unescape
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from exporter.config.kafka_section import KafkaSettings
from exporter.config.loading import load
from exporter.config.settings import ClusterSettings
from exporter.daemon.daemon import Daemon
from exporter.daemon.reload import Reloaded, Reloader
from exporter.daemon.scheduler import Order, Orders
from exporter.daemon.timetable import Timetable
from exporter.daemon.watched_cluster import ClusterPublication
from exporter.kafka.errors import ClusterUnavailableError
from exporter.snapshot import (
    Acls,
    BrokerContact,
    IdVisibility,
    Preconditions,
    StatePartitionProof,
    StateTopic,
)
from exporter.status import HistoryStatus
from hangbench.waiting import until
from tests.daemon.stand_ins import (
    FLAGS,
    Clock,
    Reloads,
    Script,
    cycle,
    daemon_on,
    down,
    get,
    hang,
    healthy,
    settings_with,
    values,
)
from tests.evaluation.builders import NOW_MS


@pytest.mark.parametrize(("name", "heading"), [("payments", "payments"), ("", "cluster-1")])
def test_the_page_has_the_cluster_s_name(name: str, heading: str) -> None:
    """The setting, with the id next to it; the id alone without one. Metrics have no such label."""
    settings = load(file=None, environment={}, flags={**FLAGS, "cluster.name": name}).settings
    daemon = Daemon(settings, lambda _: Script(healthy()))
    cycle(daemon)

    page = get(daemon, "/")[1]
    assert f'<code id="cluster">{heading}</code>' in page
    assert ('<span class="quiet">cluster-1</span>' in page) == bool(name)
    assert "payments" not in get(daemon, "/metrics")[1]


def test_the_page_s_commands_have_the_brokers_of_the_settings() -> None:
    """An operator copies them as they are."""
    daemon = daemon_on(Script(hang()), Clock())
    cycle(daemon)

    assert f"--bootstrap-server</span> {FLAGS['kafka.bootstrap.servers']} <span>--topic" in get(daemon, "/")[1]


def test_below_the_path_of_a_proxy_every_link_leads_to_a_page() -> None:
    """One proxy takes the path off, another leaves it on; at the exporter's own port the same pages are without it."""
    flags = {**FLAGS, "publish.external_url": "https://h.example/kafka%20x/tx/"}
    daemon = Daemon(load(file=None, environment={}, flags=flags).settings, lambda _: Script(hang()))
    cycle(daemon)

    seen: set[str] = set()
    ahead = ["https://h.example/kafka%20x/tx"]
    while ahead:
        address = ahead.pop()
        path = unquote(urlsplit(address).path)
        status, text = get(daemon, path)
        assert (status, text) == get(daemon, path.removeprefix("/kafka x/tx") or "/")
        assert status in ({200, 302} if path.endswith("/runbooks") else {200}), path
        links = {urljoin(address, unescape(link)) for link in re.findall(r'href="([^"#]+)', text)}
        ahead += [link for link in links - seen if urlsplit(link).netloc == "h.example"]
        seen |= links
    assert {link for link in seen if "/incidents/" in link}
    assert {link for link in seen if "/runbooks/KafkaTransaction" in link}
    assert get(daemon, "/kafka x/txt")[0] == 404


def test_settings_that_cannot_be_used_are_tried_again_at_the_next_cycle(caplog: pytest.LogCaptureFixture) -> None:
    """A certificate is being replaced: until it can be read, the old settings are in use, as a whole, and cycles go on."""
    script = Script(*(healthy(10 * number) for number in range(4)))
    daemon = daemon_on(script, Clock())
    (job,) = daemon.jobs.values()
    cycle(daemon)
    new = load(file=None, environment={}, flags={**FLAGS, "kafka.client.id": "another"}).settings
    script.unusable = [down()]
    job.use(ClusterSettings(name=None, settings=new), frozenset())
    for _ in range(3):
        cycle(daemon)

    assert script.used == [True, True]
    assert job.settings == new
    assert values(daemon)["kafka_transaction_exporter_cycles_failed_total"] == 0
    assert caplog.text.count("the new settings cannot be used yet") == 1


def test_records_that_cannot_be_read_cost_no_incident(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster goes away after a good cycle: that stays good, and its incident was published before."""
    settings = load(file=None, environment={}, flags={**FLAGS, "incident.show_records": "true"}).settings
    daemon, shown = Daemon(settings, lambda _: Script(hang())), list[bool]()

    def query(_script: Script, _question: Any, *, deadline_s: float) -> Any:
        shown.append(deadline_s > 0 and "orders-0" in get(daemon, "/incidents")[1])
        raise ClusterUnavailableError("this one has no logs")

    monkeypatch.setattr(Script, "query", query)
    cycle(daemon)

    assert shown[0]
    assert values(daemon)["kafka_transaction_exporter_cycles_failed_total"] == 0
    assert "orders-0" in get(daemon, "/incidents")[1]


def test_a_failed_cycle_keeps_the_rows_until_the_third(caplog: pytest.LogCaptureFixture) -> None:
    """Two failures leave the last snapshot's rows, the third drops them; the self metrics count all along."""
    clock = Clock()
    daemon = daemon_on(Script(healthy(), down(), down(), down(), healthy(40)), clock)

    cycle(daemon)
    assert "cycle_phase_duration_seconds{" in get(daemon, "/metrics")[1]
    assert values(daemon)["kafka_transaction_exporter_last_cycle_success"] == 1
    for failures in (1, 2, 3):
        clock.now += 10
        cycle(daemon)
        published = values(daemon)
        assert ("kafka_late_transactions" in published) == (failures < 3)
        assert published["kafka_transaction_exporter_snapshot_timestamp_seconds"] == NOW_MS / 1000
        assert published["kafka_transaction_exporter_cycles_failed_total"] == failures
        assert published["kafka_transaction_exporter_last_cycle_success"] == 0
        assert "cycle_phase_duration_seconds{" not in get(daemon, "/metrics")[1]
        assert published["kafka_transaction_exporter_snapshot_stale"] == (failures == 3)
    assert "no broker responded" in get(daemon, "/")[1]

    cycle(daemon)
    assert values(daemon)["kafka_late_transactions"] == 0
    assert [record.levelname for record in caplog.records if "no broker responded" in record.message] == ["ERROR"]


def test_a_rendering_that_comes_late_replaces_no_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that misses a cycle may be slower than the cycle."""
    daemon = daemon_on(Script(healthy(), healthy(10)), Clock())
    cycle(daemon)
    late: list[ClusterPublication] = []
    put = daemon._publisher.put
    with monkeypatch.context() as patched:
        patched.setattr(daemon._publisher, "put", lambda _, part: late.append(part))
        daemon.jobs[None].missed()
    cycle(daemon)
    before = values(daemon)["kafka_transaction_exporter_snapshot_timestamp_seconds"]
    put(None, late[0])
    assert values(daemon)["kafka_transaction_exporter_snapshot_timestamp_seconds"] == before


def test_cycles_that_cannot_begin_make_it_stale_as_well() -> None:
    """A cycle that hangs never fails: the schedule's misses count, and drop the rows."""
    daemon = daemon_on(Script(healthy()), Clock())
    cycle(daemon)

    daemon.jobs[None].missed()
    assert "No suspect in the last snapshot, but it is old" in get(daemon, "/")[1]
    for _ in range(2):
        daemon.jobs[None].missed()

    assert "3 cycles are missed: the previous one still runs." in get(daemon, "/")[1]
    published = values(daemon)
    assert published["kafka_transaction_exporter_cycles_missed_total"] == 3
    assert "kafka_late_transactions" not in published
    assert published["kafka_transaction_exporter_snapshot_stale"] == 1


class SlowHistory:
    """Records as slowly as the first time, when its library is loaded: the next cycle is due meanwhile."""

    def __init__(self) -> None:
        self.daemon: Daemon | None = None
        self.published_meanwhile: list[str] = []

    def record(self, *_: Any, **__: Any) -> None:
        assert self.daemon is not None
        self.daemon.jobs[None].missed()
        self.published_meanwhile.append(get(self.daemon, "/metrics")[1])

    def start(self) -> None: ...

    def close(self) -> None: ...

    def status(self) -> HistoryStatus:
        return HistoryStatus()


def test_what_is_published_is_in_the_history() -> None:
    """Also where the next cycle is missed while this one is recorded: an end at that moment would lose what was shown."""
    history = SlowHistory()
    daemon = daemon_on(Script(healthy()), Clock(), history=history)
    history.daemon = daemon
    cycle(daemon)

    assert "kafka_late_transactions" in values(daemon)
    (meanwhile,) = history.published_meanwhile
    assert "kafka_late_transactions" not in meanwhile


def test_it_is_ready_from_the_first_cycle_on_that_succeeded() -> None:
    """So a rollout with a wrong password replaces no working pod; liveness and a first scrape do not wait for it."""
    daemon = daemon_on(Script(down(), healthy(), down()), Clock())
    assert (get(daemon, "/-/ready")[0], get(daemon, "/-/healthy")[0], get(daemon, "/metrics")[0]) == (503, 200, 200)

    seen = []
    for _ in range(3):
        cycle(daemon)
        seen.append((get(daemon, "/-/ready")[0], get(daemon, "/-/healthy")[0]))

    assert seen == [(503, 200), (200, 200), (200, 200)]


def contact(failure: str = "") -> BrokerContact:
    return BrokerContact(broker=1, address="a:1", latency_ms=1.0, release="4.3", failure=failure)


EVERYTHING_THERE = Preconditions(
    contacts=(contact(),),
    state_topic=StateTopic.PRESENT,
    state_partitions=(StatePartitionProof(partition=0, leader=1, failure=None),),
    id_visibility=IdVisibility.ALL,
    acls=Acls(),
    hidden_topics="",
    groups_hidden="",
)


def test_whether_a_hang_could_be_proved_is_logged_once_and_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Read after the first cycle and then every ten minutes, every minute while something is missing."""
    clock, script = Clock(), Script(*[healthy(n) for n in range(5)])
    daemon = daemon_on(script, clock)
    hidden = Preconditions(contacts=(contact(),), state_topic=StateTopic.HIDDEN)
    script.preconditions = hidden

    def cycle_after(seconds: float) -> tuple[int, str]:
        clock.now += seconds
        caplog.clear()
        cycle(daemon)
        lines = [record.getMessage() for record in caplog.records if "proved" in record.getMessage()]
        return script.queries, " ".join(lines)

    with caplog.at_level("INFO"):
        first, second, third = cycle_after(0), cycle_after(10), cycle_after(50)
        assert "No suspect, but no hang could be proved" in get(daemon, "/")[1]
        script.preconditions = EVERYTHING_THERE
        fourth, fifth = cycle_after(60), cycle_after(590)

    sentence = "No hang can be proved: __transaction_state is not visible. Run doctor with the daemon's settings."
    assert [first, second, third] == [(1, sentence), (1, ""), (2, "")]
    assert [fourth, fifth] == [(3, "Hangs can be proved on the 1 visible topic."), (3, "")]
    page = get(daemon, "/")[1]
    assert "could be proved" not in page
    topics = r"Hangs can be proved on the 1 visible topic\. Level of proof there: full, with the producer\."
    assert re.search(topics + r" Rights and coordinators were checked at \d{4}-\d\d-\d\d [0-9:]{8} UTC\.", page)


def test_the_principal_is_read_once_for_each_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be in a certificate's file, which no cycle must read."""
    read: list[KafkaSettings] = []
    monkeypatch.setattr("exporter.daemon.between_cycles.principal_of", read.append)
    clock, script = Clock(), Script(healthy(), healthy(1), healthy(2))
    script.preconditions = Preconditions(contacts=(contact(),), state_topic=StateTopic.HIDDEN)
    daemon = daemon_on(script, clock)
    for _ in range(3):
        cycle(daemon)
        clock.now += 61

    assert (len(read), script.queries) == (1, 3)


def test_preconditions_that_are_not_read_in_time_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The last ones count; without any nothing is claimed."""
    clock, script = Clock(), Script(healthy(), healthy(1), healthy(2))
    daemon = daemon_on(script, clock)
    with caplog.at_level("INFO"):
        cycle(daemon)
        assert "proved" not in caplog.text
        assert "proved" not in get(daemon, "/")[1]
        script.preconditions = EVERYTHING_THERE
        clock.now += 60
        cycle(daemon)
        script.preconditions = None
        clock.now += 600
        cycle(daemon)

    assert caplog.text.count("Hangs can be proved") == 1
    assert "Hangs can be proved on the 1 visible topic." in get(daemon, "/")[1]


def test_only_a_dead_loop_fails_liveness() -> None:
    """Failing cycles keep the exporter alive; when none ends for three intervals and deadlines, it is dead."""
    clock = Clock()
    daemon = daemon_on(Script(down()), clock)
    cycle(daemon)

    clock.now += 3 * (10 + 9)
    assert daemon.scheduler.liveness() is None
    clock.now += 1

    assert daemon.scheduler.liveness() == "no cycle has ended for 58 s: the loop does not run"
    assert get(daemon, "/-/healthy")[0] == 503


def test_a_shorter_interval_is_counted_from_its_reload_on() -> None:
    """The next cycle comes a new interval later: until then the old one is what the loop was to keep."""
    clock = Clock()
    reloads = Reloads(Reloaded(settings_with(scan__interval="15s", scan__deadline="9s"), frozenset()))
    daemon = Daemon(
        settings_with(scan__interval="600s"),
        lambda _: Script(),
        reloader=cast("Reloader", reloads),
        wall_clock=clock,
        clock=clock,
    )
    clock.now += 550
    daemon.scheduler.reload(only_if_changed=False)
    assert daemon.scheduler.liveness() is None
    clock.now += 3 * (15 + 9) + 1

    assert daemon.scheduler.liveness() == "no cycle has ended for 73 s: the loop does not run"


def test_what_was_open_before_is_handed_to_the_next_reading() -> None:
    """Transactions seen in one cycle are those that the next one describes."""
    script = Script(healthy(), healthy(10))
    daemon = daemon_on(script, Clock())

    cycle(daemon)
    cycle(daemon)

    assert script.seen_before == [[], [("orders", 0, 7, 100, "")]]


def test_memory_reaches_the_state_file_and_comes_back(tmp_path: Path) -> None:
    """A second daemon with the same state file knows what the first one saw."""
    path = tmp_path / "state.json"
    cycle(daemon_on(Script(healthy()), Clock(), path))
    script = Script(healthy(10))

    cycle(daemon_on(script, Clock(), path))

    assert script.seen_before == [[("orders", 0, 7, 100, "")]]
    assert script.recalled == (healthy().identity, True)


def test_an_unwritable_state_file_harms_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The cycle succeeds, and one line says that a restart would lose the first-seen times."""
    (tmp_path / "file").write_text("")
    script = Script(healthy(), healthy(10))
    daemon = daemon_on(script, Clock())
    daemon.jobs[None]._record._state_path = tmp_path / "file" / "state.json"

    cycle(daemon)
    cycle(daemon)

    assert values(daemon)["kafka_transaction_exporter_last_cycle_success"] == 1
    assert len([r for r in caplog.records if "a restart would lose first-seen times" in r.message]) == 1


def test_new_settings_apply_from_the_next_cycle_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings read in mid-cycle wait for its end; a rotated file reconnects also where a later reload changes nothing."""
    clock = Clock()
    collector = Script(healthy(), healthy(10), healthy(20))
    used: list[tuple[int, bool]] = []
    monkeypatch.setattr(
        collector, "use", lambda _, scan, *, reconnect: used.append((scan.interval_ms, reconnect)), raising=False
    )
    changed = settings_with(scan__interval="20s", publish__suspects_limit="7")
    reloads = Reloads(Reloaded(changed, frozenset({Path("password")})), Reloaded(changed), None)
    orders = Orders()
    daemon = Daemon(
        settings_with(),
        lambda _: collector,
        reloader=cast("Reloader", reloads),
        orders=orders,
        wall_clock=clock,
        clock=clock,
    )
    daemon.scheduler.timetable.use(daemon.jobs)
    cycle(daemon)

    for _ in range(3):
        daemon.scheduler.reload(only_if_changed=False)
    interval = daemon.scheduler.timetable.intervals_s[None]

    assert used == []
    assert values(daemon)["kafka_transaction_exporter_config_last_reload_successful"] == 0
    cycle(daemon)
    cycle(daemon)
    assert used == [(20_000, True)]
    assert interval == 20
    assert values(daemon)["kafka_transaction_exporter_cycle_interval_seconds"] == 20


def test_reloads_that_wait_are_one_reload_and_do_not_delay_the_end() -> None:
    """Thousands of requests to reload, from signals or over HTTP, and then the order to stop."""
    orders = Orders()
    reloads = Reloads(None)
    daemon = Daemon(settings_with(), lambda _: Script(), reloader=cast("Reloader", reloads), orders=orders)
    for _ in range(5000):
        orders.put(Order.RELOAD)
    assert daemon.scheduler._next_order() is Order.RELOAD
    assert orders.empty()

    for order in [*[Order.RELOAD] * 5000, Order.STOP, *[Order.RELOAD] * 5000]:
        orders.put(order)
    daemon.run()
    assert reloads.calls == []


def test_orders_are_followed_until_the_one_to_stop() -> None:
    """Reload by order, a look at the files when nothing is ordered for a while, and the end."""
    clock = Clock()
    orders = Orders()
    reloads = Reloads(None)
    daemon = Daemon(
        settings_with(reload__watch_interval="10ms"),
        lambda _: Script(*[healthy()] * 50),
        reloader=cast("Reloader", reloads),
        orders=orders,
        wall_clock=clock,
        clock=clock,
    )
    orders.put(Order.RELOAD)
    thread = threading.Thread(target=daemon.run)
    thread.start()
    until(lambda: reloads.calls.count("if changed") >= 2)
    orders.put(Order.STOP)
    thread.join(10)

    assert not thread.is_alive()
    assert reloads.calls[0] == "now"


def test_a_loop_whose_scheduler_has_died_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that begins cycles ends after the first: only liveness can report that."""
    monkeypatch.setattr(Timetable, "_begin_cycles", Timetable.begin_due)
    orders = Orders()
    settings = settings_with(scan__interval="50ms", scan__deadline="40ms")
    daemon = Daemon(settings, lambda _: Script(healthy()), orders=orders)
    thread = threading.Thread(target=daemon.run)
    thread.start()
    try:
        until(lambda: "the loop does not run" in get(daemon, "/-/healthy")[1])
        assert get(daemon, "/-/healthy")[0] != 200
        until(lambda: values(daemon)["kafka_transaction_exporter_cycles_total"] == 1)
    finally:
        orders.put(Order.STOP)
        thread.join(10)
    assert not thread.is_alive()
