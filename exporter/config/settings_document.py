"""`docs/configuration.md` from the table; `make generate` writes it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from exporter.config.loading import environment_name, flag_name
from exporter.config.settings import SETTINGS
from exporter.config.table import Setting

_INTRODUCTION = """\
# Configuration

Generated from the settings that `exporter/config` declares: change those and run `make generate`.
A test compares the two.

A setting comes from, the later winning over the earlier: its default, the YAML file that `--config.file` names, its
environment variable, its flag. `kafka: {sasl: {username: me}}` and `kafka.sasl.username: me` are the same in YAML.
Everything that is wrong is reported at once, with file and line, variable or flag: an unknown name, a value of the wrong
kind, a setting that would be ignored, two that cannot work together.

A value may stand elsewhere: `${file:/run/secrets/password}` and `${env:PASSWORD}` are replaced (`$${` is `${`), and a
secret may be given by the file that holds it, under its own name and `_file`. These files are read again when they
change, like the YAML file and the certificates (`reload.watch_interval`); SIGHUP reads everything again at once.
Settings are taken whole or not at all: when something is wrong the old ones stay, the log says what, and the gauge of
the last reload in [metrics.md](metrics.md) is 0. What is marked *restart* below takes effect at the next start, and is
named in the log when it changes.

`config check` says what is wrong and exits with 1; `config dump` prints every setting and where it came from, without
secrets. Every setting is in [examples/config.yaml](../examples/config.yaml), and
[schema/config.schema.json](schema/config.schema.json) tells editors.

Durations are written as `500ms`, `30s`, `5m`, `1h`, `2d`, or a number of seconds.
Passwords have no flag: a command line can be read by everybody on the machine.
"""

_SECTIONS = {
    "kafka": "The cluster, in librdkafka's property names. A property that is not listed is refused rather than ignored.",
    "scan": "The pace of the loop, and how much a cycle may do.",
    "verdicts": "What counts as late, overdue and stuck. No verdict of *hanging* depends on these: it is a proof.",
    "publish": "What is served, and where.",
    "reload": "Settings are read again on SIGHUP, and when a file that they are made of changes.",
    "state": "What outlives a restart.",
    "transaction_log": "What became of every transaction, by the coordinators' log ([transactions.md](transactions.md)).",
    "history": "What is recorded for the pipeline ([pipeline.md](pipeline.md)). Needs the extra `history`.",
    "baseline": "What is usual, so that what is not is seen long before it is late ([pipeline.md](pipeline.md)).",
    "log": "What is said on standard error.",
}


def settings_document() -> str:
    """The whole document."""
    sections = groupby(SETTINGS, key=lambda setting: setting.name.split(".", 1)[0])
    return "\n".join([_INTRODUCTION, *(_section(name, settings) for name, settings in sections)])


def _section(name: str, settings: Iterable[Setting]) -> str:
    lines = [
        f"## {name}",
        "",
        _SECTIONS[name],
        "",
        "| setting | default | meaning | variable | flag |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_row(setting) for setting in settings)]) + "\n"


def _row(setting: Setting) -> str:
    written = str(setting.default).lower() if isinstance(setting.default, bool) else setting.default
    default = "none" if written is None else f"`{written}`"
    flag = "none: it is a secret" if setting.is_secret else f"`{flag_name(setting.name)}`"
    meaning = f"{setting.help} *Restart.*" if setting.needs_restart else setting.help
    return f"| `{setting.name}` | {default} | {meaning} | `{environment_name(setting.name)}` | {flag} |"
