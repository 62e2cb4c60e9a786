"""Makes `docs/configuration.md` from the table of settings; `make generate` writes it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from exporter.config.loading import environment_name, flag_name
from exporter.config.settings import SETTINGS
from exporter.config.table import Setting

_INTRODUCTION = f"""\
# Configuration

A setting is its default, or its value in the YAML file of `--config.file`, in its environment variable, in its flag; a
later one wins:

| YAML | variable | flag |
|---|---|---|
| `{{scan: {{topics.include: orders}}}}` or `scan.topics.include: orders` | `{environment_name("scan.topics.include")}` | \
`{flag_name("scan.topics.include")}` |
| `kafka.sasl.password_file: /run/secrets/password` | `{environment_name("kafka.sasl.password_file")}` | \
`{flag_name("kafka.sasl.password_file")}` |

Secrets have no flag: every user of a machine can read its command lines. Where a command that asks Kafka has none of
`--config.file`, `--clusters` and `--command-config`, the variables `KAFKA_TRANSACTION_EXPORTER_CONFIG_FILE` and
`KAFKA_TRANSACTION_EXPORTER_CLUSTERS_FILE` name the first two: the chart sets them.

`${{file:/run/secrets/password}}` and `${{env:PASSWORD}}` in a value are replaced by that file and that variable
(`$${{` is `${{`). Each *secret* below has a second setting, with `_file` after its name, that names a
file with it. These files, the YAML file and the certificates are read again when they change
(`reload.watch_interval`), and at SIGHUP. After an error all old settings stay, and a log line has the error. Settings
marked *restart* take effect at the next start.

[`config check` and `config dump`](commands.md#config) show errors, and every setting with its origin.
[examples/config.yaml](../examples/config.yaml) has every setting, and
[schema/config.schema.json](schema/config.schema.json) is the schema for editors.

Relative names of files begin at the working folder.

Durations are written as `500ms`, `30s`, `5m`, `1h`, `2d`; sizes as `500MB`, `2GB`.
"""

_SECTIONS = {
    "kafka": "The cluster, in librdkafka's property names. A property that is not listed is refused rather than ignored.",
    "cluster": "A fleet's file names its clusters instead ([fleet.md](fleet.md)).",
    "incident": "What the pages of incidents show ([alerting.md](alerting.md)).",
    "scan": "The pace of the loop, and how much a cycle may do.",
    "blocked": "Who is blocked behind a live transaction, and when its owner is silent. No verdict depends on these.",
    "verdicts": "What counts as late, overdue and stuck. No verdict of *hanging* depends on these: it is a proof.",
    "publish": "The content and the address of /metrics and the status page.",
    "reload": "Settings are read again on SIGHUP, and when one of their files changes.",
    "state": "The state that a restart keeps, and [recorded cycles](capsules.md).",
    "transaction_log": "The outcome of every transaction, from the transaction log ([transactions.md](transactions.md)).",
    "history": "The record of every cycle for the pipeline ([pipeline.md](pipeline.md)). Needs the extra `history`.",
    "baseline": "Usual durations: an unusually long transaction shows long before it is late ([pipeline.md](pipeline.md)).",
    "log": "Log lines on standard error.",
}


_OF_SECRETS = frozenset(f"{setting.name}_file" for setting in SETTINGS if setting.is_secret)
"""Settings that the introduction explains for all secrets."""


def settings_document() -> str:
    shown = (setting for setting in SETTINGS if setting.name not in _OF_SECRETS)
    sections = groupby(shown, key=lambda setting: setting.name.split(".", 1)[0])
    return "\n".join([_INTRODUCTION, *(_section(name, settings) for name, settings in sections)])


def _section(name: str, settings: Iterable[Setting]) -> str:
    lines = [
        f"## {name}",
        "",
        _SECTIONS[name],
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
    ]
    return "\n".join([*lines, *(_row(setting) for setting in settings)]) + "\n"


def _row(setting: Setting) -> str:
    written = str(setting.default).lower() if isinstance(setting.default, bool) else setting.default
    default = "" if written is None else f"`{written}`"
    marks = (" *Secret.*" if setting.is_secret else "") + (" *Restart.*" if setting.needs_restart else "")
    return f"| `{setting.name}` | {default} | {setting.help}{marks} |"
