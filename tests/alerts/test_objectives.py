"""The recording rules for objectives, with promtool: whether a group is blocked, and for how long no alert says so."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.alerts.promtool import shipped_rules
from tests.alerts.timeline import Exporter, seconds

ANY: Final = "instance:kafka_consumer_group_blocked_records:any"
UNALERTED: Final = "partition:kafka_consumer_group_blocked_since_timestamp_seconds:unalerted"
SUSPECT: Final = (
    'kafka_suspect_transaction_start_timestamp_seconds{topic="orders", partition="3", producer_id="4001", '
    'producer_epoch="0", start_offset="1234", transactional_id="billing-7", verdict="hanging_no_transactional_id"}'
)
GROUP: Final = '{group="payments", topic="orders", partition="3"}'
STEP_S: Final = 15


def values(rows: dict[str, Any], wanted: dict[str, tuple[str, list[float]]], folder: Path, **more: Any) -> str:
    """Promtool's complaints: `wanted` has for each time an expression and the values of its series."""
    exporter = Exporter.of({"rows": rows, **more}, {})
    end = max(map(seconds, wanted)) + STEP_S
    rules, test = folder / "rules.yaml", folder / "test.yaml"
    rules.write_text(json.dumps({"groups": shipped_rules()}))
    test.write_text(
        json.dumps(
            {
                "rule_files": [str(rules)],
                "evaluation_interval": f"{STEP_S}s",
                "group_eval_order": [group["name"] for group in shipped_rules()],
                "tests": [
                    {
                        "interval": f"{STEP_S}s",
                        "input_series": list(exporter.series(end, STEP_S)),
                        "promql_expr_test": [
                            {
                                "expr": f"sum by () ({name})",
                                "eval_time": time,
                                "exp_samples": [{"labels": "{}", "value": value} for value in expected],
                            }
                            for time, (name, expected) in wanted.items()
                        ],
                    }
                ],
            }
        )
    )
    run = subprocess.run(["promtool", "test", "rules", str(test)], capture_output=True, text=True, check=False)
    return "" if run.returncode == 0 else run.stdout + run.stderr


@pytest.mark.programs
def test_a_cluster_is_blocked_or_not_or_unknown(tmp_path: Path) -> None:
    """Without a fresh snapshot there is no value: an objective counts only what was watched."""
    rows = {f"kafka_consumer_group_blocked_records{GROUP}": {"2m": 7, "5m": "gone"}}
    wanted = {
        "1m": (ANY, [0.0]),
        "3m": (ANY, [1.0]),
        "6m": (ANY, [0.0]),
        "9m": (ANY, []),
    }

    assert values(rows, wanted, tmp_path, scraped=["0m", "8m"]) == ""


@pytest.mark.programs
def test_a_block_is_unalerted_until_an_alert_about_its_partition_fires(tmp_path: Path) -> None:
    rows = {
        f"kafka_consumer_group_blocked_since_timestamp_seconds{GROUP}": {"2m": 100},
        f"kafka_consumer_group_blocked_records{GROUP}": {"2m": 7},
        SUSPECT: {"4m": 100},
    }

    assert values(rows, {"1m": (UNALERTED, []), "3m": (UNALERTED, [80.0]), "5m": (UNALERTED, [])}, tmp_path) == ""


@pytest.mark.programs
def test_the_alert_about_many_hangs_is_about_each_of_their_partitions(tmp_path: Path) -> None:
    """It has no topic, and mutes those that have one."""
    rows = {
        f"kafka_consumer_group_blocked_since_timestamp_seconds{GROUP}": {"2m": 100},
        f"kafka_consumer_group_blocked_records{GROUP}": {"2m": 7},
        SUSPECT: {"4m": 100},
        'kafka_open_transactions{verdict="hanging_no_transactional_id"}': {"0m": 0, "4m": 11},
    }

    assert values(rows, {"3m": (UNALERTED, [80.0]), "5m": (UNALERTED, []), "9m": (UNALERTED, [])}, tmp_path) == ""
