"""Rules for every dashboard: generated, identified, laid out, linked, and green only with a meaning."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import yaml

from exporter import PROGRAM
from exporter.artifacts.rules import page_of
from exporter.commands.arguments import COMMANDS, build_parser
from exporter.evaluation.verdicts import Verdict
from grafana.dashboards import DASHBOARDS, text_of
from grafana.fields import (
    DOUBTFUL,
    FINE,
    NOT_READ,
    PARTLY_READ,
    STATE_TEXTS,
    UNKNOWN,
    VERDICT_COLOURS,
    WRONG,
    Shade,
    State,
    shades,
)
from grafana.queries import FRESH_CYCLES
from grafana.suspects import ADVICE
from tests.each import each
from tests.grafana.colours import is_green
from tests.grafana.promql import selectors
from tests.grafana.reading import COMMITTED, Json, Target, chosen_on, expanded, filled, panels, targets
from tests.grafana.recorded import ROOT

ALERTS: Final = (ROOT / "alerts" / "alerts.yaml").read_text()
RECORDING: Final = (ROOT / "alerts" / "recording.yaml").read_text()
GREEN: Final = re.compile(rf"green|{FINE}", re.IGNORECASE)

every_dashboard = each(DASHBOARDS)
every_target = each(targets(), name=lambda target: target.name)


@every_dashboard
def test_a_dashboard_can_be_provisioned_alongside_others(name: str) -> None:
    """A fixed uid of at most 40 characters, no number of a database, the usual time, no data source by name."""
    dashboard = COMMITTED[name]

    assert dashboard["uid"] == f"kafka-transactions-{name}"
    assert len(dashboard["uid"]) <= 40
    assert "id" not in dashboard
    assert (dashboard["time"]["from"], dashboard["refresh"], dashboard["timezone"]) == ("now-6h", "30s", "browser")
    assert (dashboard["graphTooltip"], dashboard["editable"], dashboard["tags"]) == (1, False, ["kafka-transactions"])
    assert set(re.findall(r'"uid": "([^"]*)"', json.dumps(dashboard))) == {dashboard["uid"], "${datasource}"}
    assert len(text_of(dashboard)) < 1_000_000, "a ConfigMap holds 1 MiB"


@every_dashboard
def test_panels_neither_overlap_nor_share_a_number(name: str) -> None:
    """Every cell of the grid is one panel's, and titles name panels unambiguously."""
    shown = expanded(COMMITTED[name])["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in shown)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    assert len({panel["id"] for panel in shown}) == len(shown)
    assert len({panel["title"] for panel in shown}) == len(shown)


def test_the_first_screen_says_what_is_wrong_and_what_is_not_known() -> None:
    """Before any scrolling: state, counts, who waits, alerts, suspects, what was not read."""
    heading = next(panel for panel in COMMITTED["overview"]["panels"] if panel["type"] == "row")
    first = [panel["title"] for panel in COMMITTED["overview"]["panels"] if panel["id"] < heading["id"]]

    assert heading["gridPos"]["y"] <= 24
    assert first == [
        "State",
        "Hanging transactions",
        "Other suspects",
        "Offsets held back by suspects",
        "Unread partitions",
        "Blocked consumer groups",
        "Firing alerts",
        "Suspect transactions",
        "Producers that cannot start",
        "Unread",
    ]


def test_four_suspects_are_seen_before_any_scrolling() -> None:
    """In a panel of 1824 pixels a command takes two lines: measured in the picture of the overview while it hangs."""
    cell, gap, title, heading, row = 38, 8, 40, 36, 58
    (panel,) = [panel for panel in panels(COMMITTED["overview"]) if panel["title"] == "Suspect transactions"]

    assert panel["gridPos"]["h"] * cell - gap >= title + heading + 4 * row


def test_the_first_screen_needs_no_recording_rule_to_say_what_is_wrong() -> None:
    """State, suspects and gaps are made of the exporter's own series; only counts and alerts need rules."""
    for target in targets():
        if target.panel["title"] in {
            "State",
            "Suspect transactions",
            "Blocked consumer groups",
            "Unread",
            "Suspects on this partition",
        }:
            assert not any(":" in str(selector.name) for selector in selectors(target.expression)), target.name


@every_dashboard
def test_numbers_and_tables_show_the_present_and_graphs_keep_their_gaps(name: str) -> None:
    """An old value is never shown as the newest: a number is asked at one instant, and no line spans what is missing."""
    for panel in panels(COMMITTED[name]):
        for target in panel.get("targets", []):
            assert (target["instant"], target["range"]) == (
                panel["type"] != "timeseries",
                panel["type"] == "timeseries",
            )
        if panel["type"] == "timeseries":
            assert panel["fieldConfig"]["defaults"]["custom"]["spanNulls"] is False
        if panel["type"] != "text":
            assert panel["fieldConfig"]["defaults"]["noValue"], panel["title"]


@every_dashboard
def test_only_the_state_is_green_and_what_is_missing_is_not(name: str) -> None:
    """Green occurs once in a dashboard, for the state that says that all was read; no threshold begins with a colour."""
    for panel in panels(COMMITTED[name]):
        config = panel.get("fieldConfig", {})
        greens = GREEN.findall(json.dumps(config))
        assert len(greens) == (1 if panel["title"] in {"State", "Exporters, worst first"} else 0), panel["title"]
        if panel["type"] == "stat":
            defaults = config["defaults"]
            (missing,) = [mapping["options"] for mapping in defaults["mappings"] if mapping["type"] == "special"]
            assert missing["match"] == "null+nan"
            assert missing["result"] == {"text": defaults["noValue"], "color": UNKNOWN, "index": 0}
            assert defaults["thresholds"]["steps"][0] == {"color": "transparent", "value": None}
    assert [state for state, (_, colour) in STATE_TEXTS.items() if colour == FINE] == [State.FINE]
    assert set(STATE_TEXTS) == set(State)


def luminance(colour: str) -> float:
    """Relative luminance, of WCAG 2."""
    shares = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@each({*VERDICT_COLOURS.values(), UNKNOWN, WRONG, DOUBTFUL, FINE})
def test_words_on_a_state_can_be_read(background: str) -> None:
    """4.5:1 or more (WCAG 2, level AA), with the colour that Grafana writes in (getTextColorForBackground)."""
    red, green, blue = (int(background[at : at + 2], 16) for at in (1, 3, 5))
    text = "#202226" if (299 * red + 587 * green + 114 * blue) / 1000 > 180 else "#f7f8fa"
    lighter, darker = sorted((luminance(text), luminance(background)), reverse=True)

    assert (lighter + 0.05) / (darker + 0.05) >= 4.5


def colours_in(value: Any) -> Iterator[Json]:
    """Every colour setting in a part of a dashboard: a dictionary with the mode of the colour."""
    if isinstance(value, dict):
        if str(value.get("mode")).startswith(("fixed", "shades", "thresholds", "palette", "continuous")):
            yield value
        for part in value.values():
            yield from colours_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from colours_in(part)


@every_dashboard
def test_an_empty_panel_has_one_reason(name: str) -> None:
    """A text for missing data never joins a healthy reason with an unknown one: one of them has a row or line instead."""
    for panel in panels(COMMITTED[name]):
        config = panel.get("fieldConfig", {})
        found = [config["defaults"]["noValue"]] if config else []
        found += [
            each["value"]
            for rule in config.get("overrides", [])
            for each in rule["properties"]
            if each["id"] == "noValue"
        ]
        assert not any(" or " in text for text in found), panel["title"]


@every_dashboard
def test_no_line_can_be_green(name: str) -> None:
    """Grafana's palettes contain green: a line has a shade of its panel's colour, or a colour of its own."""
    for panel in panels(COMMITTED[name]):
        colours = list(colours_in(panel.get("fieldConfig")))
        modes = {colour["mode"] for colour in colours}
        assert modes <= {"fixed", "shades", "thresholds"}, panel["title"]
        assert not any(is_green(colour.get("fixedColor", "")) for colour in colours), panel["title"]
        if panel["type"] == "timeseries":
            defaults = panel["fieldConfig"]["defaults"]
            neutral, counted = (Shade(step["color"]) for step in defaults["thresholds"]["steps"])
            assert neutral is Shade.NEUTRAL, panel["title"]
            assert defaults["color"] in ({"mode": "thresholds", "seriesBy": "max"}, shades(counted)), panel["title"]


@each({*Shade, *VERDICT_COLOURS.values(), UNKNOWN, WRONG, DOUBTFUL, FINE})
def test_only_fine_is_green(colour: Shade | str) -> None:
    """No colour with another meaning has a green hue, whatever it is called."""
    assert is_green(colour.value if isinstance(colour, Shade) else colour) == (colour == FINE)


def test_what_a_default_installation_lacks_is_collapsed() -> None:
    """Log, history, baseline and audit are off by default: a click opens their rows, and before that they cost no query."""
    rows = {row["title"]: row for row in COMMITTED["overview"]["panels"] if row["type"] == "row"}
    collapsed = {panel["title"] for row in rows.values() for panel in row["panels"]}
    needing = {
        target.panel["title"]
        for target in targets()
        if target.dashboard == "overview"
        and re.search(
            "transaction_log_|_completed|transaction_marker|history_|baseline_|unusual|audit", target.expression
        )
    }

    assert needing
    assert needing <= collapsed
    assert [title for title, row in rows.items() if not row["collapsed"]] == ["Trends"]


@every_dashboard
def test_a_table_is_sorted_by_what_it_has(name: str) -> None:
    """The worst first, by a field of the questions, which may be a hidden one."""
    for panel in panels(COMMITTED[name]):
        if panel["type"] == "table":
            keys = [step["options"]["sort"][0]["field"] for step in panel["transformations"] if step["id"] == "sortBy"]
            words = set(re.findall(r"\w+", " ".join(target["expr"] for target in panel["targets"])))
            numbers = {f"Value #{target['refId']}" for target in panel["targets"]}
            assert keys
            assert set(keys) <= words | (numbers if len(numbers) > 1 else {"Value"})


@every_target
def test_no_graph_reads_the_big_family_over_time(target: Target) -> None:
    """A hundred thousand partitions over six hours are more samples than Prometheus loads: only one partition is."""
    for selector in selectors(target.expression):
        if selector.name == "kafka_partition_max_active_transaction_duration_seconds" and not target.is_instant:
            assert {'topic="$topic"', 'partition="$partition"'} <= set(str(selector.matchers).strip("{}").split(","))


@every_dashboard
def test_overrides_and_hidden_columns_name_columns_that_can_be_there(name: str) -> None:
    """A column that is renamed, coloured or hidden is a label of its table's questions or their value."""
    for panel in panels(COMMITTED[name]):
        if panel["type"] == "table":
            words = set(re.findall(r"\w+", " ".join(target["expr"] for target in panel["targets"])))
            numbers = {f"Value #{target['refId']}" for target in panel["targets"]}
            known = words | {"Time"} | (numbers if len(numbers) > 1 else {"Value"})
            rules = panel["fieldConfig"]["overrides"]
            named = {rule["matcher"]["options"] for rule in rules if rule["matcher"]["id"] == "byName"}
            excluded = set(panel["transformations"][-1]["options"]["excludeByName"])
            assert named | excluded <= known
            assert not {"cluster", "instance"} & (excluded | hidden_in(panel))


def hidden_in(panel: Json) -> set[str]:
    """The columns of a table that are there and not drawn."""
    return {
        rule["matcher"]["options"]
        for rule in panel["fieldConfig"]["overrides"]
        if {"id": "custom.hidden", "value": True} in rule["properties"]
    }


@every_dashboard
def test_a_link_has_the_values_of_its_row(name: str) -> None:
    """A column that a transformation removed is unknown to a link, and a mapped one gives it the text of the mapping."""
    for panel in panels(COMMITTED[name]):
        if panel["type"] == "table":
            used = set(re.findall(r"__data\.fields\.(\w+)", json.dumps(panel["fieldConfig"])))
            assert not used & set(panel["transformations"][-1]["options"]["excludeByName"]), panel["title"]
            for rule in panel["fieldConfig"]["overrides"]:
                if rule["matcher"]["options"] in used:
                    assert not [option for option in rule["properties"] if option["id"] == "mappings"], panel["title"]


def variables_of(dashboard: Json) -> set[str]:
    return {variable["name"] for variable in dashboard["templating"]["list"]}


@every_dashboard
def test_links_lead_to_dashboards_and_give_them_what_they_ask(name: str) -> None:
    """A link between pages has a uid of the project, and names variables of both pages."""
    pages = {dashboard["uid"]: dashboard for dashboard in COMMITTED.values()}
    for url in re.findall(r'"url": "(/d/[^"]*)"', json.dumps(COMMITTED[name])):
        place = urlsplit(url)
        target = pages[place.path.removeprefix("/d/")]
        given = {key.removeprefix("var-") for key, _ in parse_qsl(place.query) if key.startswith("var-")}
        passed = set(re.findall(r"\$\{(\w+):queryparam\}", url))
        assert given | passed <= variables_of(target)
        assert passed <= variables_of(COMMITTED[name])
        assert {"datasource", "bootstrap_server", "runbooks"} <= passed


def test_every_page_is_linked_from_every_other() -> None:
    """The links at the top go by tag, keep the range and carry the variables."""
    for dashboard in COMMITTED.values():
        (links,) = dashboard["links"]
        assert (links["type"], links["tags"], links["includeVars"], links["keepTime"]) == (
            "dashboards",
            dashboard["tags"],
            True,
            True,
        )


def test_runbooks_are_those_of_alerts() -> None:
    """A row's runbook is one of an alert, and the address before it is the one that the alerts use."""
    names = {page_of(rule) for group in yaml.safe_load(ALERTS)["groups"] for rule in group["rules"]}
    texts = json.dumps(COMMITTED)

    assert {advice.runbook for advice in ADVICE} <= names
    in_rows = set(re.findall(r'\\"runbook\\", \\"(\w+)\\"', texts))
    assert len(in_rows) > len(ADVICE)
    assert in_rows <= names
    for dashboard in COMMITTED.values():
        (base,) = [variable["query"] for variable in dashboard["templating"]["list"] if variable["name"] == "runbooks"]
        assert f"runbook_url: {base}/KafkaTransactionHanging.md" in ALERTS


def test_every_suspect_verdict_has_exactly_one_advice() -> None:
    """A new verdict needs an advice, and no row occurs twice."""
    suspects = [verdict.label for verdict in Verdict if verdict.is_suspect]

    for label in suspects:
        count = sum(bool(re.fullmatch(advice.verdicts, label)) for advice in ADVICE)
        assert count == 1, f"ADVICE in grafana/suspects.py has {count} rows for {label}"
    assert not any(re.fullmatch(advice.verdicts, other) for advice in ADVICE for other in (NOT_READ, PARTLY_READ))


def commands_by_hand() -> list[str]:
    (content,) = [panel["options"]["content"] for panel in panels(COMMITTED["partition"]) if panel["type"] == "text"]
    block = filled(content, chosen_on("partition")).replace("\\\n", " ").split("```")[1]
    return [line for line in block.splitlines() if line.strip()]


def test_commands_to_type_are_commands() -> None:
    """The commands on the page of a partition are accepted by the exporter's parser, and only read."""
    commands = [shlex.split(line) for line in commands_by_hand()]

    assert [command[:2] for command in commands] == [[PROGRAM, "find-hanging"], [PROGRAM, "describe-producers"]]
    for _, *arguments in commands:
        assert build_parser().parse_args(arguments).command in COMMANDS


ABOUT_EXPORTERS: Final = "exporter_(cycles|requests|request_failures|history|baseline|transaction_log_reading)"
"""Each exporter has its own of these, which add up."""


@every_target
def test_a_sum_has_each_cluster_once(target: Target) -> None:
    """Two exporters of one cluster must not double what it has, but in sums by exporter; a zero is 0 twice, too."""
    summed = re.findall(
        r"(?<!0 \* )\bsum(?: by \((?!cluster, job, instance)[^)]*\))? ?\((?!max without)(.*)", target.expression
    )

    assert [of for of in summed if not re.search(f"{ABOUT_EXPORTERS}|_bucket", of)] == []


def test_freshness_is_the_alerts_own() -> None:
    """The state of an exporter calls a snapshot old when the signals drop it."""
    assert f"* {FRESH_CYCLES} # threshold: fresh_cycles" in RECORDING


def test_annotations_are_alerts_that_exist() -> None:
    """Each severity that pages or warns is drawn into the graphs; the watchdog is not."""
    rules = [rule for group in yaml.safe_load(ALERTS)["groups"] for rule in group["rules"]]
    severities = {rule["labels"]["severity"] for rule in rules}
    for dashboard in COMMITTED.values():
        drawn = [re.findall(r'severity="(\w+)"', annotation["expr"]) for annotation in dashboard["annotations"]["list"]]
        assert drawn == [["critical"], ["warning"]]
        assert {"critical", "warning"} <= severities
