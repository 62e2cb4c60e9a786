"""Makes the chart's README: the first steps and the table of all values."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any, Final

from exporter.artifacts import PROJECT
from helm.values import Value, documented

_HEAD: Final = f"""\
# kafka-transaction-exporter

{{description}}. Chart {{version}}, for kafka-transaction-exporter {{app_version}} and Kubernetes {{kubernetes}}.

<!-- Made by `make generate` from values.yaml and helm/readme.py: change those. -->

```sh
helm install transactions ./helm/kafka-transaction-exporter --namespace kafka \\
  --set image.registry=registry.example.org \\
  --set-json 'kafka.bootstrapServers=["kafka-bootstrap:9092"]'
helm test transactions --namespace kafka --logs
```

The second command runs `doctor`, and fails with the reason if the exporter is not authorized to read the whole cluster. It
needs DESCRIBE on every topic, on every transactional id and on the cluster; READ on the topics and others are optional:
[Minimum ACLs]({PROJECT}#minimum-acls).

TLS and SASL, Strimzi, the selectors of kube-prometheus-stack, several clusters, upgrades, and the tests of the chart are in
[docs/helm.md]({PROJECT}/blob/main/docs/helm.md). Complete examples: `ci/*-values.yaml`.

- Objects of other operators, dashboards and policies are off by default.
- Pods meet the Pod Security Standard `restricted`; the service account has no rights, and pods have no token.
- A secret is never a value: every credential is an existing Secret, mounted as a file and read again when it changes.
- Unknown keys are refused; `config` and the names of alerts are checked against the exporter's own schema and rules.
- Memory grows with the number of partitions: begin with requests of 100m and 128Mi, and look at the metric
  `process_resident_memory_bytes`.

## Values
"""


def readme(values: tuple[Value, ...], chart: dict[str, Any]) -> str:
    """The whole file."""
    parts = [
        _HEAD.format(
            description=chart["description"],
            version=chart["version"],
            app_version=chart["appVersion"],
            kubernetes=chart["kubeVersion"].removeprefix(">=").removesuffix("-0") + " or newer",
        )
    ]
    for section, rows in groupby(documented(values), key=lambda value: value.section):
        heading = f"### {section or 'Names'}"
        parts.append("\n".join([heading, "", "| value | default | meaning |", "|---|---|---|", *map(_row, rows), ""]))
    return "\n".join(parts)


def _row(value: Value) -> str:
    default = "" if value.default is None else json.dumps(value.default, ensure_ascii=False)
    choices = [str(one) for one in value.schema.get("enum", []) if one not in ("", None)]
    meaning = f"{value.help} One of {', '.join(f'`{one}`' for one in choices)}." if choices else value.help
    return " | ".join(
        ["| " + f"`{value.name}`", f"`{default}`" if default else "none", meaning.replace("|", "\\|") + " |"]
    )
