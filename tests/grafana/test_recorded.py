"""Runs every query of every dashboard on a real Prometheus in every scenario, and checks the results."""

from __future__ import annotations

import json
import math
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from exporter import PROGRAM
from exporter.commands.arguments import COMMANDS, build_parser
from exporter.evaluation.verdicts import Verdict
from exporter.publication.paths import queries_in, query_of
from grafana.coverage import EVERYTHING, NO_GAP
from grafana.fields import NOT_READ, PARTLY_READ, State
from grafana.firing import NO_RULES, WATCHDOG
from tests.grafana.expected import EMPTY, UNREAD, is_empty
from tests.grafana.reading import Target, chosen_on, filled, targets
from tests.grafana.recorded import APART_MS, Prometheus, ends_s, recorded
from tests.grafana.scenarios import ADDRESS, SCENARIOS, SHOWN_S
from tests.marks import starts

Answer = list[dict[str, Any]]
every_scenario = pytest.mark.parametrize("scenario", SCENARIOS)

STATES: Final[Mapping[str, list[State]]] = {
    "healthy": [State.FINE],
    "hanging": [State.HANGING],
    "owner_silent": [State.OWNER_SILENT],
    "partly_read": [State.PARTLY_READ],
    "unproved": [State.SUSPECT],
    "unreachable": [State.NOT_FRESH],
    "failed_once": [State.CYCLE_FAILED],
    "never_read": [State.NOT_FRESH],
    "down": [State.NOT_RESPONDING],
    "frozen": [State.NOT_FRESH],
    "transaction_log": [State.FINE],
    "fleet": [State.FINE, State.NOT_RESPONDING, State.PARTLY_READ, State.HANGING],
    "replaced": [State.FINE],
    "one_of_two": [State.FINE, State.NOT_RESPONDING],
    "one_process": [State.FINE, State.HANGING],
    "idle": [State.FINE],
}


@pytest.fixture(scope="module")
@starts("programs")
def prometheus() -> Iterator[Prometheus]:
    begun = time.monotonic()
    with recorded() as server:
        print(f"{len(SCENARIOS)} scenarios recorded in {time.monotonic() - begun:.1f} s")
        yield server


def ask(prometheus: Prometheus, target: Target, scenario: str, **chosen: str) -> Answer:
    """The answer as a panel would get it."""
    expression = filled(target.expression, chosen_on(target.dashboard, **chosen))
    now = ends_s(scenario)
    if target.is_instant:
        return prometheus.instant(expression, now)
    return prometheus.range(expression, now - SHOWN_S, now, 30)


def the(dashboard: str, title: str, number: str = "A") -> Target:
    """A question by its place."""
    (found,) = [target for target in targets() if target.name == f"{dashboard}: {title}: {number}"]
    return found


def value(series: dict[str, Any]) -> float:
    return float(series["value"][1])


def values(answer: Answer) -> list[float]:
    return [float(point) for series in answer for _, point in series.get("values", [series.get("value")])]


@every_scenario
def test_every_query_has_its_result(prometheus: Prometheus, scenario: str) -> None:
    """Data of the scenario are shown and finite; data that it does not have are missing, and not 0."""
    wrong = []
    for target in targets():
        answer = ask(prometheus, target, scenario)
        if bool(answer) == is_empty(target, scenario):
            wrong.append(f"{target.name}: {len(answer)} series")
        wrong += [f"{target.name}: {value}" for value in values(answer) if not math.isfinite(value)]

    assert wrong == []


def test_expectations_are_about_existing_queries() -> None:
    """A panel that has gone or got another name takes its expectation along."""
    assert set(EMPTY) <= {target.name for target in targets()}


@every_scenario
def test_the_state_is_the_worst_that_is_known(prometheus: Prometheus, scenario: str) -> None:
    """Fine only where all was read just now; unread is never fine."""
    answer = ask(prometheus, the("overview", "State"), scenario)

    assert sorted(map(value, answer)) == sorted(STATES[scenario])
    in_fleet = ask(prometheus, the("fleet", "Exporters, worst first"), scenario)
    assert sorted(map(value, in_fleet)) == sorted(STATES[scenario])


def test_a_replaced_pod_is_on_no_page_and_a_lost_exporter_is(prometheus: Prometheus) -> None:
    """Both no longer respond, and another exporter reads the cluster: one that started as the pod ended, or long before."""
    shown = {
        scenario: {
            row["metric"]["instance"]
            for place in (("overview", "State"), ("overview", "Unread"), ("fleet", "Exporters, worst first"))
            for row in ask(prometheus, the(*place), scenario)
        }
        for scenario in ("replaced", "one_of_two")
    }

    assert shown == {"replaced": {"10.0.0.2:9814"}, "one_of_two": {"10.0.0.1:9814", "10.0.0.2:9814"}}
    assert [value(row) for row in ask(prometheus, the("fleet", "Exporters known"), "replaced")] == [1]


def test_a_number_of_a_cluster_is_not_that_of_all_its_exporters(prometheus: Prometheus) -> None:
    """Nothing of the cluster changes when the second of its exporters goes."""
    shown = {
        title: {value for series in ask(prometheus, the("overview", title), "one_of_two") for value in values([series])}
        for title in ("Open transactions by verdict", "Partitions by result")
    }

    assert shown == {"Open transactions by verdict": {1}, "Partitions by result": {7, 0}}


@every_scenario
def test_the_fleet_counts_what_its_rows_show(prometheus: Prometheus, scenario: str) -> None:
    """A number above the table is the number of rows with such a cell, also where a worse cell decides on their state."""
    rows = {column: ask(prometheus, the("fleet", "Exporters, worst first", column), scenario) for column in "BC"}
    incomplete = {State.NOT_RESPONDING, State.NOT_FRESH, State.CYCLE_FAILED, State.PARTLY_READ}
    counted = {
        "Exporters known": len(STATES[scenario]),
        "With a proved hang": sum(value(cell) > 0 for cell in rows["B"]),
        "With other suspects": sum(value(cell) > 0 for cell in rows["C"]),
        "Not fully read": sum(state in incomplete for state in STATES[scenario]) + (scenario == "unproved"),
    }

    for title, count in counted.items():
        assert [value(sample) for sample in ask(prometheus, the("fleet", title), scenario)] == [count], title


def test_an_exporter_is_in_each_number_that_its_row_shows(prometheus: Prometheus) -> None:
    """Oslo has one hang and three other suspects; where a coordinator is unread, suspects do not hide that."""
    shown = [("fleet", "With a proved hang"), ("fleet", "With other suspects"), ("unproved", "Not fully read")]

    assert [value(ask(prometheus, the("fleet", title), scenario)[0]) for scenario, title in shown] == [1, 1, 1]


@every_scenario
def test_the_state_is_fresh_where_the_signals_are(prometheus: Prometheus, scenario: str) -> None:
    """The state, which needs no rules, and the signals, which do, agree on which exporters can be believed."""
    signal = prometheus.instant("instance:kafka_transaction_exporter_cluster_info:fresh", ends_s(scenario))
    believed = {
        sample["metric"]["instance"]
        for sample in ask(prometheus, the("overview", "State"), scenario)
        if value(sample) not in {State.NOT_RESPONDING, State.NOT_FRESH}
    }

    assert {sample["metric"]["instance"] for sample in signal} == believed


@every_scenario
@pytest.mark.parametrize(
    ("dashboard", "title"), [("overview", "Suspect transactions"), ("partition", "Suspects on this partition")]
)
def test_no_suspect_is_shown_only_where_all_was_read(
    prometheus: Prometheus, scenario: str, dashboard: str, title: str
) -> None:
    """An exporter with unread partitions has a row that says so; one that read everything has none."""
    rows = ask(prometheus, the(dashboard, title), scenario)
    gaps = sorted(row["metric"]["verdict"] for row in rows if row["metric"]["verdict"] in {NOT_READ, PARTLY_READ})
    expected = {"partly_read": [PARTLY_READ], "unproved": [PARTLY_READ], "fleet": [NOT_READ, PARTLY_READ]}
    expected["one_of_two"] = [NOT_READ]

    assert gaps == expected.get(scenario, [NOT_READ] if scenario in UNREAD else [])


@every_scenario
def test_gaps_are_named_or_denied(prometheus: Prometheus, scenario: str) -> None:
    """Each exporter has a row for each gap, or one that says that there is none; never both, never nothing."""
    rows = ask(prometheus, the("overview", "Unread"), scenario)
    found: dict[tuple[str, str | None], set[str]] = {}
    for row in rows:
        exporter = row["metric"]["instance"], row["metric"].get("cluster")
        found.setdefault(exporter, set()).add(row["metric"]["what"])

    assert len(found) == len(STATES[scenario])
    assert all(what == {NO_GAP} or NO_GAP not in what for what in found.values())
    assert ({EVERYTHING} in found.values()) == (scenario in UNREAD | {"fleet", "one_of_two"})


def test_what_was_not_read_is_named_with_its_reason(prometheus: Prometheus) -> None:
    """Two partitions without READ, one that timed out, a broker, a coordinator, and an unread limit."""
    rows = ask(prometheus, the("overview", "Unread"), "partly_read")

    assert sorted((row["metric"]["what"], row["metric"]["reason"].split(":")[0], value(row)) for row in rows) == [
        ("brokers", "at least one request failed", 1),
        ("coordinators", "at least one request failed", 1),
        ("partitions", "TOPIC_AUTHORIZATION_FAILED", 2),
        ("partitions", "timed_out", 1),
        ("transaction.max.timeout.ms", "could not be read from any broker", 1),
    ]


def test_a_suspect_has_all_that_an_operator_needs(prometheus: Prometheus) -> None:
    """The row of the hang: place, age, certainty, blocked groups, the runbook and the command."""
    rows = {number: ask(prometheus, the("overview", "Suspect transactions", number), "hanging") for number in "AB"}
    (row,) = [sample for sample in rows["A"] if sample["metric"]["certainty"] == "proved"]
    keys = ("topic", "partition", "producer_id", "producer_epoch", "start_offset", "verdict", "runbook")

    assert [row["metric"][key] for key in keys] == [
        *("orders", "1", "4001", "3", "20154"),
        *("hanging_no_transactional_id", "KafkaTransactionHanging"),
    ]
    assert value(row) == pytest.approx(3572, abs=1), "seconds"
    assert {sample["metric"]["url"] for sample in rows["A"]} == {ADDRESS}
    (began,) = map(value, ask(prometheus, the("partition", "Suspects on this partition", "C"), "hanging"))
    assert began / 1000 == pytest.approx(ends_s("hanging") - value(row), abs=1)
    held_back = {sample["metric"]["producer_id"]: value(sample) for sample in rows["B"]}
    assert held_back == {"4001": 17_850, "4002": 3570, "4003": 7140, "4004": 396}
    assert len(rows["A"]) == len(rows["B"]) == 4


def test_a_suspect_of_an_exporter_without_an_address_has_its_row_too(prometheus: Prometheus) -> None:
    """`publish.external_url` is optional: only the link is missing."""
    rows = [sample["metric"] for sample in ask(prometheus, the("overview", "Suspect transactions"), "down")]
    rows += [sample["metric"] for sample in ask(prometheus, the("overview", "Suspect transactions"), "fleet")]

    assert "hanging_no_transactional_id" in {row["verdict"] for row in rows}
    assert not any("url" in row for row in rows)


def test_the_row_of_a_suspect_links_to_its_incident(prometheus: Prometheus) -> None:
    """Each field of the link is in the row, and the exporter leads from this address to the incident."""
    target = the("overview", "Suspect transactions")
    (link,) = re.findall(r'"(\$\{__data\.fields\.url:raw\}/incidents[^"]*)"', json.dumps(target.panel))
    for sample in ask(prometheus, target, "hanging"):
        row = sample["metric"]
        address = re.sub(r"\$\{__data\.fields\.(\w+)(?::raw)?\}", r"{\1}", link).format(**row)
        place = query_of(row["topic"], row["partition"], row["start_offset"])

        assert address == f"{ADDRESS}/incidents{place}"
        assert next(queries_in(place.removeprefix("?"))) == place


def test_the_worst_comes_first(prometheus: Prometheus) -> None:
    """Rows are sorted by a rank that follows the order of the verdicts; what was not read comes after what was."""
    target = the("overview", "Suspect transactions")
    rows = [sample["metric"] for sample in ask(prometheus, target, "fleet")]
    ranked = [row["verdict"] for row in sorted(rows, key=lambda row: (row["rank"], row["verdict"]))]

    *_, last = (step["options"]["sort"] for step in target.panel["transformations"] if step["id"] == "sortBy")
    assert last == [{"field": "rank", "desc": False}], "the last of them counts first"
    assert ranked == [
        "hanging_no_transactional_id",
        "stuck_completing",
        "overdue_at_coordinator",
        "inconclusive",
        NOT_READ,
        PARTLY_READ,
    ]
    labels = [verdict.label for verdict in Verdict]
    assert ranked[:4] == sorted(ranked[:4], key=labels.index)


def test_rows_of_one_table_share_their_labels(prometheus: Prometheus) -> None:
    """Grafana merges rows whose labels agree: a label of a later question is one of the first."""
    for target in targets():
        if target.target.get("format") == "table" and target.target["refId"] != "A":
            first = ask(prometheus, the(target.dashboard, target.panel["title"]), "fleet")
            own = {label for row in ask(prometheus, target, "fleet") for label in row["metric"]}
            assert own - {"cluster_id", "version"} <= {label for row in first for label in row["metric"]}


@every_scenario
def test_every_command_is_one_that_writes_nothing(prometheus: Prometheus, scenario: str) -> None:
    """A row's command is accepted by the exporter's parser, and has --dry-run where it could write."""
    for row in ask(prometheus, the("overview", "Suspect transactions"), scenario):
        name, *arguments = shlex.split(row["metric"]["command"])
        options = build_parser().parse_args(arguments)
        assert name == PROGRAM
        assert options.command in COMMANDS
        assert options.command in {"find-hanging", "once"} or options.dry_run
        if "topic" in row["metric"]:
            assert (options.topic, options.partition) == (row["metric"]["topic"], int(row["metric"]["partition"]))


def test_the_row_of_a_hang_says_abort_and_that_of_a_stuck_one_complete(prometheus: Prometheus) -> None:
    """The row advises for each verdict what the exporter would permit."""
    rows = ask(prometheus, the("overview", "Suspect transactions"), "hanging")

    assert {sample["metric"]["verdict"]: sample["metric"]["command"].split()[1] for sample in rows} == {
        "hanging_no_transactional_id": "abort",
        "stuck_completing": "complete",
        "overdue_at_coordinator": "find-hanging",
        "inconclusive": "find-hanging",
    }


@pytest.mark.parametrize(
    "chosen", [{"cluster": "oslo"}, {"instance": r"exporter\\.oslo:9814"}], ids=lambda labels: next(iter(labels))
)
def test_a_choice_narrows_what_is_shown(prometheus: Prometheus, chosen: dict[str, str]) -> None:
    """One cluster's page shows nothing of another; but alerts have no instance, and are narrowed by cluster alone."""
    for target in targets():
        if "cluster" in chosen or "ALERTS" not in target.expression:
            for series in ask(prometheus, target, "fleet", **chosen):
                assert series["metric"].get("cluster", "oslo") == "oslo", target.name
    (state,) = ask(prometheus, the("overview", "State"), "fleet", **chosen)
    assert value(state) == State.HANGING


def test_of_many_clusters_in_one_process_one_is_shown(prometheus: Prometheus) -> None:
    """The chosen one, with what the process does for all; links lead to the row's own cluster and incidents."""
    rows = ask(prometheus, the("fleet", "Exporters, worst first"), "one_process")
    assert {row["metric"]["cluster"]: row["metric"]["linked_cluster"] for row in rows} == {
        "berlin": "berlin",
        "oslo": "oslo",
    }
    suspects = ask(prometheus, the("overview", "Suspect transactions"), "one_process", cluster="oslo")
    assert {(row["metric"]["linked_cluster"], row["metric"]["url"]) for row in suspects} == {
        ("oslo", f"{ADDRESS}/clusters/oslo")
    }
    assert ask(prometheus, the("overview", "Suspect transactions"), "one_process", cluster="berlin") == []
    for cluster in ("oslo", "berlin"):
        for title in ("Resident memory", "History: size on disk"):
            (of_process,) = ask(prometheus, the("overview", title), "one_process", cluster=cluster)
            assert "cluster" not in of_process["metric"]
        alerts = ask(prometheus, the("overview", "Firing alerts"), "one_process", cluster=cluster)
        assert "ExporterHistoryNotWritten" in {row["metric"]["reason"] for row in alerts}
    (row,) = ask(prometheus, the("fleet", "Exporters, worst first"), "healthy")
    assert row["metric"]["linked_cluster"] == ".*"


def test_another_job_has_nothing(prometheus: Prometheus) -> None:
    """Every query selects the job; without that it would include other scraped programs."""
    found = {target.name: ask(prometheus, target, "fleet", job="other") for target in targets()}
    rows = [row["metric"] for name, answer in found.items() if "Firing alerts" in name for row in answer]

    assert {name for name, answer in found.items() if answer and "Firing alerts" not in name} == set()
    assert {(row["alertname"], row["severity"]) for row in rows} == {(WATCHDOG, NO_RULES)}


@pytest.mark.parametrize("title", ["overview: Firing alerts", "partition: Firing alerts for this partition"])
def test_no_alert_fires_only_where_alerts_are_evaluated(prometheus: Prometheus, title: str) -> None:
    """Without alerting rules the table has a row; with them, and nothing wrong, it is empty."""
    target = the(*title.split(": "))
    expression = filled(target.expression, chosen_on(target.dashboard))
    (row,) = prometheus.instant(expression, ends_s("healthy") + APART_MS / 2000)

    assert (row["metric"]["alertname"], row["metric"]["severity"]) == (WATCHDOG, NO_RULES)
    assert prometheus.instant(expression, ends_s("healthy")) == []


def test_a_cluster_without_transactions_is_read(prometheus: Prometheus) -> None:
    """A graph that could be empty because there is nothing has a line at 0, and no other line contradicts it."""
    lines = {
        (target.dashboard, target.panel["title"]): values(ask(prometheus, target, "idle"))
        for target in targets()
        if re.match("no(ne)? ", target.target["legendFormat"])
    }

    assert len(lines) == 18
    assert {place: set(points) for place, points in lines.items()} == {place: {0} for place in lines}


def test_a_graph_is_empty_only_where_something_is_unknown(prometheus: Prometheus) -> None:
    """Where all was read and all is switched on, each graph has a line, if only one at 0."""
    graphs = {(target.dashboard, target.panel["title"]) for target in targets() if not target.is_instant}
    drawn = {
        (target.dashboard, target.panel["title"])
        for target in targets()
        if not target.is_instant and ask(prometheus, target, "transaction_log")
    }

    assert graphs - drawn == set()


@every_scenario
def test_no_group_is_blocked_only_where_all_was_read(prometheus: Prometheus, scenario: str) -> None:
    """An exporter with unread partitions has a row that says so, in the table of groups as in the table of suspects."""
    suspects = ask(prometheus, the("overview", "Suspect transactions"), scenario)
    groups = ask(prometheus, the("overview", "Blocked consumer groups"), scenario)
    gaps = {NOT_READ, PARTLY_READ}

    assert sorted(row["metric"]["group"] for row in groups if row["metric"]["group"] in gaps) == sorted(
        row["metric"]["verdict"] for row in suspects if row["metric"]["verdict"] in gaps
    )


def test_a_topic_narrows_rows_and_lines(prometheus: Prometheus) -> None:
    """With one topic chosen, suspects and lines of partitions are of it alone; totals are not narrowed, and say so."""
    following = {
        target.panel["title"]
        for target in targets()
        if target.dashboard == "overview" and "$topic" in target.expression
    }
    for target in targets():
        if target.dashboard == "overview" and target.panel["title"] in following:
            answer = ask(prometheus, target, "hanging", topic="payments")
            assert {sample["metric"].get("topic", "payments") for sample in answer} <= {"payments"}, target.name

    assert following == {
        "Bytes held back, worst ten partitions",
        "Suspect transactions",
        "Blocked consumer groups",
        "Offsets held back, worst ten partitions with a suspect",
        "Transactions longer than usual, worst ten partitions",
        "Age of suspects, worst ten partitions",
        "Longest idle transactions, worst ten partitions",
    }


OF_OWNERS: Final = (
    "Suspect transactions",
    "Blocked consumer groups",
    "Offsets held back, worst ten partitions with a suspect",
    "Age of suspects, worst ten partitions",
)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"group": "invoices"}, [{"4001"}, {"invoices"}, {"orders"}, {"orders"}]),
        ({"group": "ledger"}, [{"4002"}, {"ledger"}, {"payments"}, {"payments"}]),
        ({"group": "invoices|ledger"}, [{"4001", "4002"}, {"invoices", "ledger"}, *2 * [{"orders", "payments"}]]),
        ({"transactional_id": "payments-7"}, [{"4002"}, {"ledger"}, {"payments"}, {"payments"}]),
        ({"transactional_id": "nightly-report"}, [{"4003"}, set(), {"payments"}, {"payments"}]),
        ({"group": "ledger", "transactional_id": "payments-7"}, [{"4002"}, {"ledger"}, {"payments"}, {"payments"}]),
        ({"group": "invoices", "transactional_id": "payments-7"}, 4 * [set()]),
        ({"group": "somebody-else"}, 4 * [set()]),
    ],
    ids=lambda value: " ".join(value.values()) if isinstance(value, dict) else "",
)
def test_an_owner_sees_what_is_his(prometheus: Prometheus, chosen: dict[str, str], expected: list[set[str]]) -> None:
    """A group selects the suspects that block it, an id its own suspects and the groups behind them."""
    labels = ("producer_id", "group", "topic", "topic")
    found = [
        {row["metric"][label] for row in ask(prometheus, the("overview", title), "hanging", **chosen)}
        for title, label in zip(OF_OWNERS, labels, strict=True)
    ]

    assert found == expected


@pytest.mark.parametrize("chosen", [{"group": "invoices"}, {"transactional_id": "payments-7"}], ids=str)
def test_an_owner_sees_what_was_not_read(prometheus: Prometheus, chosen: dict[str, str]) -> None:
    """With a name chosen, the tables have their rows about unread parts, and graphs do not say that nothing is suspect."""
    for title, label in (("Suspect transactions", "verdict"), ("Blocked consumer groups", "group")):
        for scenario, gap in (("partly_read", PARTLY_READ), ("unreachable", NOT_READ)):
            assert gap in {row["metric"][label] for row in ask(prometheus, the("overview", title), scenario, **chosen)}
    without = ask(prometheus, the("overview", OF_OWNERS[2], "B"), "never_read", **chosen)
    assert without == []


def test_alerts_about_other_groups_are_not_shown_to_an_owner(prometheus: Prometheus) -> None:
    """Of alerts with a group his own remain; alerts without one remain all."""
    rows = [
        {
            row["metric"].get("group", "")
            for row in ask(prometheus, the("overview", "Firing alerts"), "hanging", **chosen)
        }
        for chosen in ({}, {"group": "ledger"})
    ]

    assert rows == [{"", "invoices", "ledger"}, {"", "ledger"}]


def test_a_partition_that_was_not_read_is_not_zero(prometheus: Prometheus) -> None:
    """The page of a partition without READ has no number, while that of an idle one says 0."""
    numbers = [target for target in targets() if target.dashboard == "partition" and target.panel["type"] == "stat"]
    for target in numbers:
        assert ask(prometheus, target, "partly_read", topic="payments", partition="0") == []
        assert values(ask(prometheus, target, "partly_read", topic="orders", partition="1")) == [0]


LOG_ALERTS: Final = {
    "Timeouts": "billing",
    "FencingStorm": "billing",
    "MarkersSlow": "billing",
    "ExporterLogIncomplete": None,
    "ExporterLogBehind": None,
    "ExporterHistoryNotWritten": None,
}
"""Reason -> group."""


@every_scenario
def test_alerts_about_the_log_and_the_history_fire_where_these_are_read(prometheus: Prometheus, scenario: str) -> None:
    """Each with the group that it is about; where neither is switched on nothing of it fires, however bad the rest is."""
    rows = [sample["metric"] for sample in ask(prometheus, the("overview", "Firing alerts"), scenario)]
    found = {row["reason"]: row.get("group") for row in rows if row.get("reason") in LOG_ALERTS}

    of_history = {"ExporterHistoryNotWritten": None}
    assert found == {"transaction_log": LOG_ALERTS, "one_process": of_history}.get(scenario, {})


def test_the_graphs_say_what_the_alerts_decide_on(prometheus: Prometheus) -> None:
    """The newest values of the troubled group: a quarter timed out, twelve takings a minute, two seconds for a marker."""
    titles = (
        *("Share of transactions that timed out, by group", "Producer initializations per minute, by group"),
        *("Marker latency, p99", "Timed out within 15 minutes, by group"),
    )
    newest = {
        (title, series["metric"]["group"]): float(series["values"][-1][1])
        for title in titles
        for series in ask(prometheus, the("overview", title), "transaction_log")
    }

    expected = {"billing": (0.25, 12, 2.35, 150), "orders": (0, 0, 0.01, 0)}
    for group, values_of_group in expected.items():
        assert [newest[title, group] for title in titles] == pytest.approx(list(values_of_group), abs=0.02)


def test_percentiles_are_of_the_group(prometheus: Prometheus) -> None:
    """Half of billing's transactions are short, and those that time out last a minute; nothing of orders does."""
    newest = {
        (series["metric"]["group"], number): float(series["values"][-1][1])
        for number in "ABC"
        for series in ask(prometheus, the("overview", "Duration of transactions, by group", number), "transaction_log")
    }

    assert newest["billing", "A"] < 0.25
    assert 30 < newest["billing", "B"] < newest["billing", "C"] <= 60
    assert newest["orders", "C"] <= 0.25
