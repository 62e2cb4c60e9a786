"""The table of alerts in docs/alerting.md; `make generate` writes it."""

from __future__ import annotations

import re

from alerts.rules import ALERTS, load, rules_of


def table() -> str:
    """One row for each rule, in the order of the file."""
    lines = ["| alert | severity | waits | stays | fires when |", "|---|---|---|---|---|"]
    above = re.findall(r"(.*)\n *- alert: ", ALERTS.read_text(encoding="utf-8"))
    for rule, comment in zip(rules_of(load(ALERTS)), above, strict=True):
        _, found, condition = comment.partition("# Fires when ")
        assert found, f"{ALERTS.name}: the line above {rule['alert']} must be `# Fires when ...`"
        waits, stays = rule.get("for", "at once"), rule.get("keep_firing_for", "no")
        lines.append(f"| `{rule['alert']}` | {rule['labels']['severity']} | {waits} | {stays} | {condition} |")
    return "\n".join(lines) + "\n"
