"""The table of alerts in docs/alerting.md, and the first block of every runbook; `make generate` writes them."""

from __future__ import annotations

import re
from typing import Final

from exporter import PROGRAM
from exporter.artifacts.rules import ALERTS, load, page_of, reason_of, rules_of
from exporter.commands.rules import function_of
from exporter.snapshot import CLUSTER_ID_VARIABLE

CONFIG_FILE_OF_UNIT: Final = "/etc/kafka-transaction-exporter/config.yaml"
"""The settings file of examples/systemd."""


def table() -> str:
    """One row for each rule, in the order of the file, but rules of one name together."""
    rows: dict[str, list[str]] = {}
    head = ["| alert | reason | severity | waits | stays | fires when |", "|---|---|---|---|---|---|"]
    above = re.findall(r"(.*)\n *- alert: ", ALERTS.read_text(encoding="utf-8"))
    for rule, comment in zip(rules_of(load(ALERTS)), above, strict=True):
        _, found, condition = comment.partition("# Fires when ")
        assert found, f"{ALERTS.name}: the line above {rule['alert']} must be `# Fires when ...`"
        waits, stays = rule.get("for", "0s"), rule.get("keep_firing_for", "no")
        name = f"| `{rule['alert']}` | `{reason_of(rule)}` | {rule['labels']['severity']}"
        rows.setdefault(rule["alert"], []).append(f"{name} | {waits} | {stays} | {condition} |")
    return "\n".join([*head, *(row for some in rows.values() for row in some)]) + "\n"


def first_block(page: str) -> str:
    """The alerts that lead to the page, and `commands_block`."""
    alerts = [
        f"`{rule['alert']}` ({rule['labels']['severity']})" for rule in rules_of(load(ALERTS)) if page_of(rule) == page
    ]
    text = (ALERTS.parent / "runbooks" / f"{page}.md").read_text(encoding="utf-8")
    is_about_exporter = page.startswith("KafkaTransactionExporter")
    has_tools = re.search(r"^ *kafka-[a-z-]*\.sh ", text, re.MULTILINE) is not None
    block = commands_block(brokers_line=is_about_exporter and has_tools)
    return f"Alert {' and '.join(alerts)}, reason `{page.removeprefix('KafkaTransaction')}`.\n\n{block}"


def commands_block(*, brokers_line: bool = False) -> str:
    """Where the command is and with which login it runs, so that a page's commands run as they stand; a fence for each way.

    The exporter's own login can only read. In a container HOME and working directory are the mounted folder, which has the
    login and keeps audit log and plan files. `brokers_line` adds a line for Kafka's own tools alone: on pages about the
    exporter a login would take its place in the commands that follow.
    """
    environment = f"-e HOME=/tmp -e {CLUSTER_ID_VARIABLE}"
    in_container = (
        f'docker run -it --rm --network host --user "$(id -u)" {environment} -v "$PWD:/tmp" -w /tmp {PROGRAM}'
    )
    own = '"$@" --command-config client.properties; }'
    in_file = "sed -n 's/^bootstrap.servers *[=:] *//p' client.properties"
    # Without the file, or servers in it, those of the page's line stay.
    bootstrap = f"""export BOOTSTRAP="$({in_file} | grep . || echo "${{BOOTSTRAP-}}")\""""
    login = "one of the last two, and a Java client's `client.properties`"
    need = f"Commands that write, and\n   Kafka's own tools, need {login}"
    if brokers_line:
        login = "that and a login need a Java client's `client.properties`"
        need = f"Kafka's own tools need\n   the *brokers line* only; {login}"
    block = f"""\
Paste before the commands, in this order:

1. The line `variables` of the alert, if it has one, or that of the status page or of the incident. If it defines the
   command, as in the Helm chart's rules, or names a settings file of this machine, it is enough for commands that only
   read.
2. Where that line is not enough, one of these ([which one](README.md#before-the-first-command)). {need} in this folder,
   with `bootstrap.servers`, which is all of it on a cluster without logins.

*Host line*: on the exporter's host, only reads, with the exporter's login (as root while its unit runs, if systemd holds
the password).

```text
{function_of(CONFIG_FILE_OF_UNIT, None)}
```

*Login line*: your login.

```text
{PROGRAM}() {{ command {PROGRAM} {own}; {bootstrap}
```

*Container line*: your login, in a container.

```text
{PROGRAM}() {{ {in_container} {own}; {bootstrap}
```
"""
    if brokers_line:
        block += f"""
*Brokers line*: for Kafka's own tools alone.

```text
{bootstrap}
```
"""
    return f"""{block}
The line for a login takes the place of the alert's line: paste that, or the *host line*, again before what runs *where the
exporter runs*, and before `get`, `config` and `doctor`.
"""
