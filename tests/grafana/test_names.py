"""Every name in a dashboard is one that is published or recorded, and every name that is published is used."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml
from promql_parser import AggModifierType, AggregateExpr

from exporter.publication.metrics.table import METRICS
from tests.each import each
from tests.grafana.promql import nodes, parsed, selectors
from tests.grafana.reading import COMMITTED, Target, panels, targets
from tests.grafana.recorded import ROOT, rules

OF_TARGETS: Final = {"job", "instance", "cluster"}
"""Labels that a scrape gives to every series; `cluster` where somebody has added it."""
OF_OWNERS: Final = {"group", "transactional_id"}
"""Variables of labels that a series may lack: All selects it then, and nothing else does."""
PROCESS: Final = {
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_start_time_seconds",
    "process_open_fds",
    "process_max_fds",
}
LABELS: Final[dict[str, set[str]]] = {
    **{metric.name: set(metric.labels) for metric in METRICS},
    **{f"{metric.name}_bucket": {*metric.labels, "le"} for metric in METRICS if metric.kind == "histogram"},
    **{name: set[str]() for name in PROCESS},
    "ALERTS": {"alertname", "alertstate", "severity", "topic", "partition", "group", "cluster_id"},
}

UNUSED: Final = {
    "kafka_suspect_transaction_start_by_client_clock": "in the descriptions of two alerts, about one transaction",
    "kafka_transactional_ids_without_group": "a hint to configure groups, for whoever wonders what `other` is",
    "kafka_transaction_exporter_snapshot_stale": "its rows are gone then, and that is what panels and signals look at",
    "kafka_transaction_exporter_last_success_timestamp_seconds": "the age of the snapshot says it from the reader's side",
    "kafka_transaction_exporter_hidden_topics": "the same; the status page and the log name them",
    "kafka_transaction_exporter_cluster_clock_known": "what would rest on a clock is inconclusive, with that reason",
    "kafka_transaction_exporter_transaction_log_records_total": "how many are left says whether it keeps up",
    "kafka_transaction_exporter_transaction_log_transactional_ids": "what they cost is in the graph of the memory",
    "kafka_transaction_exporter_history_newest_timestamp_seconds": "what waits in memory says how much is not on disk",
    "process_virtual_memory_bytes": "an address space that nobody pays for",
    "process_open_fds": "as good as constant: a connection for each broker and scraper",
    "process_max_fds": "only of use beside the former",
}
"""Published, and in no dashboard or alert on purpose."""

DURATIONS: Final = {"s", "dtdurations", "suffix: s", "suffix: min", "suffix: h", "suffix: ms"}

every_target = each(targets(), name=lambda target: target.name)


def recorded() -> set[str]:
    return {rule["record"] for rule in rules()} - {"ALERTS"}


def labels_of(name: str) -> set[str]:
    """A recorded name holds the metric that it was made of, whose labels it keeps; the signals add the cluster's id."""
    metric = name.split(":")[1] if ":" in name else name
    return LABELS.get(metric, set()) | OF_TARGETS | ({"cluster_id"} if ":" in name else set())


def is_by_labels(node: Any) -> bool:
    """True of an aggregation that keeps the labels that it names."""
    has_labels = isinstance(node, AggregateExpr) and node.modifier is not None
    return has_labels and node.modifier.type == AggModifierType.By


@every_target
def test_every_metric_and_signal_exists(target: Target) -> None:
    """A panel asks for what the table of metrics has or recording.yaml records."""
    for selector in selectors(target.expression):
        assert selector.name in LABELS or selector.name in recorded()


@every_target
def test_every_label_exists(target: Target) -> None:
    for selector in selectors(target.expression):
        matchers = selector.matchers.matchers
        used = {matcher.name for matcher in matchers if matcher.value not in {f"${name}" for name in OF_OWNERS}}
        assert used <= labels_of(str(selector.name)), selector.name


@every_target
def test_every_grouping_is_by_labels_that_are_there(target: Target) -> None:
    """An aggregation keeps labels of what it is made of, or those that the question itself has given."""
    given = set(re.findall(r'"(\w+)", "[^"]*", "", ""\)', target.expression)) | {"command"}
    for node, _ in nodes(parsed(target.expression)):
        if is_by_labels(node):
            below = {label for selector in selectors(node.expr.prettify()) for label in labels_of(str(selector.name))}
            assert set(node.modifier.labels) <= below | given


@every_target
def test_every_legend_names_labels_that_are_left(target: Target) -> None:
    """A legend that names a label which the aggregation has dropped would be empty."""
    named = set(re.findall(r"\{\{(\w+)\}\}", target.target["legendFormat"]))
    tree = parsed(target.expression)
    kept = [set(node.modifier.labels) for node, _ in nodes(tree) if is_by_labels(node)]
    below = {label for selector in selectors(target.expression) for label in labels_of(str(selector.name))}

    assert named <= (set[str]().union(*kept) if kept else below)


@each(COMMITTED)
def test_variables_ask_for_labels_of_their_metric(name: str) -> None:
    for variable in COMMITTED[name]["templating"]["list"]:
        if variable["type"] == "query":
            query = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"])
            assert query is not None
            (selector,) = selectors(query[1])
            assert query[2] in labels_of(str(selector.name))


@every_target
def test_units_are_those_of_the_names(target: Target) -> None:
    """Seconds are shown as durations and bytes as bytes: Prometheus' names end with their unit.

    An axis in minutes or milliseconds has a question that makes them.
    """
    names = {
        str(selector.name).split(":")[1] if ":" in str(selector.name) else str(selector.name)
        for selector in selectors(target.expression)
    }
    unit = target.panel["fieldConfig"]["defaults"]["unit"]
    for ending, wanted in (("_seconds", DURATIONS), ("_seconds_bucket", DURATIONS), ("_bytes", {"bytes"})):
        if target.panel["type"] != "table" and all(name.endswith(ending) for name in names):
            assert unit in wanted
    if target.panel["type"] == "timeseries":
        is_line_at_zero = target.expression.startswith("0 * ")
        assert (unit == "suffix: min") == target.expression.endswith("/ 60") or is_line_at_zero
        assert (unit == "suffix: h") == target.expression.endswith("/ 3600") or "sum(1 - " in target.expression
        assert (unit == "suffix: ms") == target.expression.startswith("1000 *")


@each(COMMITTED)
def test_columns_have_the_units_of_their_questions(name: str) -> None:
    """A column of numbers says what it counts; ages are seconds and instants are dates."""
    ages = dict.fromkeys(("Age", "Blocked for", "Ends by itself in", "Snapshot age"), "dtdurations")
    of_columns = {
        **ages,
        "Began": "dateTimeAsIso",
        "State": "locale",
        "Full in": "dtdurations",
        "Free": "bytes",
        "Size": "bytes",
    }
    for panel in panels(COMMITTED[name]):
        for rule in panel.get("fieldConfig", {}).get("overrides", []):
            has = {option["id"]: option["value"] for option in rule["properties"]}
            if str(rule["matcher"]["options"]).startswith("Value") and "custom.hidden" not in has:
                assert has["unit"] == of_columns.get(has["displayName"], "locale"), panel["title"]


def test_every_published_metric_is_used_or_left_out_on_purpose() -> None:
    """A metric without a panel and without an alert needs a reason."""
    expressions = [target.expression for target in targets()]
    expressions += [rule["expr"] for rule in rules()]
    used = {word for expression in expressions for word in re.findall(r"[a-z_:]+", expression)}
    used |= {word for name in used for word in name.split(":")} | {name.removesuffix("_bucket") for name in used}
    published = {metric.name for metric in METRICS} | PROCESS

    assert published - used == set(UNUSED)


def test_every_signal_is_in_a_panel() -> None:
    """A signal is what an alert and a panel share; one that only alerts read is left out by name."""
    used = {str(selector.name) for target in targets() for selector in selectors(target.expression)}

    assert recorded() - used == {
        "instance:kafka_transaction_exporter_snapshot_timestamp_seconds:age",  # panels show it without rules, too
        "instance:kafka_transaction_exporter_cluster_info:fresh",  # what the other signals are made of
        "instance:kafka_suspect_transactions_hidden:fresh",  # in the table of what was not read, without rules
        "instance:kafka_transaction_exporter_coverage_complete:fresh",  # in the state, without rules
        "instance:kafka_transaction_exporter_coverage_complete:settled",  # when an alert may end: of no use in a panel
        "cluster:kafka_transaction_exporter_cluster_info:timestamp",
        "cluster:kafka_transaction_exporter_cluster_info:renamed",  # whether a cluster is missed: the alert's own
        "instance:kafka_transaction_exporter_partitions:responding",  # panels show them by answer
        # what panels show, and for some minutes more what is not contradicted: of no use in a panel
        "transaction:kafka_suspect_transaction_start_timestamp_seconds:proved",
        # of those whose owner is silent; the table of groups has the end of all, without rules
        "transaction:kafka_blocking_transaction_owner_silent_seconds:fresh",
        "transaction:kafka_blocking_transaction_ends_timestamp_seconds:fresh",
        "transaction:kafka_blocking_transaction_ends_timestamp_seconds:lasting",
        "transaction:kafka_blocking_transaction_ends_timestamp_seconds:wait",
        "log_dir:kafka_log_dir_full_seconds:fresh",  # the table of log directories has it without rules
        # in the state and the table of producers that cannot start, without rules
        "transaction:kafka_stuck_transaction_start_timestamp_seconds:age",
        "transaction:kafka_stuck_transaction_start_timestamp_seconds:lasting",
        "transaction:kafka_suspect_transaction_start_timestamp_seconds:lasting",
        "partition:kafka_partition_max_active_transaction_duration_seconds:lasting",
        "group:kafka_consumer_group_blocked_records:lasting",
        "instance:kafka_hanging_transactions:lasting",
        # for objectives of the user's
        "instance:kafka_consumer_group_blocked_records:any",
        "partition:kafka_consumer_group_blocked_since_timestamp_seconds:unalerted",
        "instance:kafka_hanging_transactions:cluster_wide",
        # what these are made of, and panels show by verdict, or without rules
        "instance:kafka_hanging_transactions:fresh",
        "group:kafka_consumer_group_blocked_records:fresh",
        "instance:kafka_transaction_protection:fresh",  # in a table, without rules
        "instance:kafka_transaction_exporter_visible_topics:fresh",  # part of the coverage, which panels show
        "partition:kafka_partition_max_active_transaction_duration_seconds:late_prepared",  # the alert's own
    }


def test_the_recording_rules_are_read() -> None:
    """These tests look at the rules that are shipped."""
    groups = yaml.safe_load((ROOT / "alerts" / "recording.yaml").read_text())["groups"]

    assert {rule["record"] for group in groups for rule in group["rules"]} == recorded()


def test_an_idle_time_that_is_unknown_is_not_drawn_as_0() -> None:
    """Its panels draw a 0 where the metric has no series only if no transaction is open."""
    idle = [target.panel for target in targets() if "kafka_partition_max_transaction_idle_seconds" in target.expression]
    expressions = [str(target["expr"]) for panel in idle for target in panel["targets"]]
    zeros = [expression for expression in expressions if "0 * " in expression]

    assert len(zeros) == 3
    assert all("kafka_partition_open_transactions" in zero.partition("unless")[2] for zero in zeros)
