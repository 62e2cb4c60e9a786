"""The time lines watched: rules are broken in every way that somebody might break them, and a time line must notice each.

`pytest -rP` prints how many there were.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Final

import pytest

from exporter.artifacts.rules import Group, Rule, key_of, page_of, rules_of
from tests.alerts.promtool import play, shipped_rules
from tests.alerts.timeline import seconds

pytestmark = pytest.mark.slow

EXCHANGES: Final[tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]] = (
    # comparisons and set operators
    (r" > ", " >= "),
    (r"<= ", "< "),
    (r"== 0", "!= 0"),
    (r"\band ignoring", "unless ignoring"),
    (r"^and ", "unless "),
    (r"\bunless\b", "and"),
    (r"^or ", "unless "),
    # aggregations and windows; of what topk leaves, and for `and`, one is all
    (r"(?<!and )\bmax without(?! \([^)]*\) \(\n *topk)", "sum without"),
    (r"\bmin without", "max without"),
    (r"\bsum without", "max without"),
    (r"\bcount without", "sum without"),
    (r"instance, pod", "pod"),
    (r", pod\b", ""),
    (r", verdict, transactional_id\b", ""),
    (r"\[10m\]", "[1m]"),
    (r"\[2m\]", "[15s]"),
    (r"\[5m\]", "[1m]"),
    (r"offset 10m", "offset 1m"),
    (r"\[1d\]", "[1h]"),
    (r"\[15m\]", "[1m]"),
    # matchers
    (r"hanging_\.\+", ".+"),
    (r'="(\w+)"', r'!="\1"'),
    (r"\|\w+_hidden", ""),
    (r"\|ids_may_be_denied", ""),
    # freshness and age
    (r"instance:kafka_transaction_exporter_cluster_info:fresh(?!\[)", "kafka_transaction_exporter_cluster_info"),
    (r"timestamp\(\w+\)", "time() + 0 * kafka_transaction_exporter_snapshot_timestamp_seconds"),
    (r"clamp_min\((.*), 0\)", r"(\1)"),
    (r"^-instance", "instance"),
    (r"time\(\)", "0"),
    (r"(\S+) (?=# threshold)", lambda found: f"{float(found[1]) * 1.3} "),
    (r"(\S+) (?=# threshold)", lambda found: f"{float(found[1]) * 0.7} "),
)

HARMLESS: Final = {
    # the only statement is that it fires: the value is not read
    ("KafkaTransactionExporterDown.critical", "max without"),
    ("KafkaTransactionExporterDown.critical", " > "),  # what is renamed is not scraped at the same time
    ("cluster:kafka_transaction_exporter_cluster_info:renamed", "max without"),
    ("KafkaTransactionWatchdog.none", "max without"),
    ("KafkaTransactionExporterNoTopicVisible.critical", "max without"),  # 0 is 0
    ("KafkaTransactionExporterLogIncomplete.warning", "max without"),
    ("KafkaTransactionProtectionMissing.warning", "max without"),  # 0 is 0
    ("KafkaTransactionExporterHistoryNotWritten.warning", "max without"),
    # the end of the same transaction, which every alert needs too, is fresh
    (
        "transaction:kafka_blocking_transaction_owner_silent_seconds:fresh",
        "instance:kafka_transaction_exporter_cluster_info:fresh",
    ),
    # an owner that writes ends the signal anyway
    ("transaction:kafka_blocking_transaction_ends_timestamp_seconds:lasting", " > "),
    # here it only brings cluster_id: the suspects, whose partitions these are, are fresh already
    (
        "partition:kafka_partition_last_stable_offset_lag:suspect",
        "instance:kafka_transaction_exporter_cluster_info:fresh",
    ),
}


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """(what was done, the rule with exactly that done)."""
    for pattern, replacement in EXCHANGES:
        for found in re.finditer(pattern, rule["expr"], flags=re.MULTILINE):
            if (rule.get("record") or key_of(rule), found[0]) in HARMLESS:
                continue
            changed = deepcopy(rule)
            after = found.expand(replacement) if isinstance(replacement, str) else replacement(found)
            changed["expr"] = rule["expr"][: found.start()] + after + rule["expr"][found.end() :]
            yield f"{found[0]!r} at {found.start()} became {after!r}", changed
    for key in {"for", "keep_firing_for"} & set(rule):
        yield f"without {key}", {name: value for name, value in rule.items() if name != key}
        length_s = seconds(rule[key])
        yield f"{key} twice as long", {**rule, key: f"{length_s * 2}s"}
        yield f"{key} half as long", {**rule, key: f"{length_s // 2}s"}
    for label in rule.get("labels", {}):
        labels = {name: value for name, value in rule["labels"].items() if name != label}
        yield f"without label {label}", {**rule, "labels": labels}


def survivors(rule: Rule, groups: list[Group], alerts: list[str], folder: Path) -> tuple[int, list[str]]:
    """How many mutants there were, and which of them no time line of these alerts noticed."""
    count, unnoticed = 0, []
    for done, mutant in mutants(rule):
        path = folder / "rules.yaml"
        changed = _exchanged(groups, rule, mutant)
        path.write_text(json.dumps({"groups": changed}))
        check = subprocess.run(["promtool", "check", "rules", str(path)], capture_output=True, check=False)
        if check.returncode != 0:
            continue  # Prometheus itself refuses it
        count += 1
        if not any(play(alert, changed) for alert in alerts):
            unnoticed.append(f"{rule.get('record') or key_of(rule)}: {done}")
    return count, unnoticed


def _exchanged(groups: list[Group], rule: Rule, mutant: Rule) -> list[Group]:
    return [{**group, "rules": [mutant if each == rule else each for each in group["rules"]]} for group in groups]


def _readers(name: str, groups: list[Group]) -> list[str]:
    """Alerts that read a signal, directly or by another."""
    signals = {name}
    while True:
        further = {
            rule["record"] for rule in rules_of(groups) if "record" in rule and any(s in rule["expr"] for s in signals)
        }
        if further <= signals:
            break
        signals |= further
    return sorted(
        {page_of(rule) for rule in rules_of(groups) if "alert" in rule and any(s in rule["expr"] for s in signals)}
    )


ALL: Final = shipped_rules()


OF_ALERTS: Final = [group for group in ALL if group["name"] != "kafka-transaction-objectives"]
"""Rules that an alert reads; `test_objectives` has the others."""


@pytest.mark.parametrize("rule", list(rules_of(OF_ALERTS)), ids=lambda rule: rule.get("record") or key_of(rule))
def test_no_broken_rule_goes_unnoticed(rule: Rule, tmp_path: Path) -> None:
    alerts = [page_of(rule)] if "alert" in rule else _readers(rule["record"], ALL)
    count, unnoticed = survivors(rule, ALL, alerts, tmp_path)

    print(f"{count} mutants, {len(unnoticed)} unnoticed", *unnoticed, sep="\n")
    assert unnoticed == []
