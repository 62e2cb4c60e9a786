"""The table of alerts in docs/alerting.md, and the first block of every runbook; `make generate` writes them."""

from __future__ import annotations

import re
from typing import Final

from alerts.rules import ALERTS, load, rules_of

PROGRAM: Final = "kafka-transaction-exporter"


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


def first_block() -> str:
    """Where the command is and with which login it runs: shell functions, so that a page's commands run as they stand.

    The exporter's own login can only read. In a container HOME is the mounted folder, which keeps audit log and plan files.
    """
    in_pod = "kubectl exec -i deploy/kafka-transaction-exporter --"
    in_container = 'docker run -it --rm --network host --user "$(id -u)" -e HOME=/tmp -v "$PWD:/tmp"'
    own = '"$@" --command-config client.properties; }'
    return f"""\
Paste one of these first, then the line `export` of the alert or of its incident page.
[The common page](README.md#before-the-first-command) has the other variables.

```text
# To read, with the exporter's login, where it runs in Kubernetes
{PROGRAM}() {{ {in_pod} {PROGRAM} "$@" --config.file $CONFIG_FILE; }}
# To read and to write, with your own login: in a container, or by Python
{PROGRAM}() {{ {in_container} {PROGRAM} {own}
{PROGRAM}() {{ pipx run {PROGRAM} {own}
```
"""
