"""Custom kinds that the chart makes: their CRDs, and the same as JSON schemas for kubeconform.

Those of the Prometheus operator come of its types, that of the Gateway API out of its module, and that of the Spark
operator of its models for Python; tests/helm/crds_by_hand/ has what was written by hand, and says why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.helm.manifests import Manifest, manifests
from tests.tools import gateway_crds, operator_crds

BY_HAND: Final = Path(__file__).parent / "crds_by_hand"


def crds_at_hand() -> list[Manifest]:
    """Those that need no Go."""
    return [*_crds(BY_HAND), *_spark_kinds()]


def all_crds() -> list[Manifest]:
    """Raises ToolUnavailable."""
    return [*_crds(operator_crds()), *_crds(gateway_crds()), *crds_at_hand()]


def write_schemas(crds: list[Manifest], folder: Path) -> None:
    """`<kind>_<version>.json` of each. A CRD holds an OpenAPI schema, which is all but a JSON schema."""
    for crd in crds:
        spec = crd["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            _refuse_unknown(schema["properties"]["spec"])
            schema["properties"]["metadata"] = {"type": "object"}
            schema["additionalProperties"] = False
            (folder / f"{spec['names']['kind'].lower()}_{version['name']}.json").write_text(json.dumps(schema))


def _crds(folder: Path) -> list[Manifest]:
    return [crd for path in sorted(folder.glob("*.yaml")) for crd in manifests(path.read_text(encoding="utf-8"))]


def _spark_kinds() -> list[Manifest]:
    """Of the operator's models: types and names of fields. Its patterns and choices are not in them."""
    from kubeflow_spark_api import models  # noqa: PLC0415 - a second to import

    kinds = ("SparkApplication", "ScheduledSparkApplication")
    return [
        _spark_kind(kind, getattr(models, f"SparkV1beta2{kind}").model_json_schema(by_alias=True)) for kind in kinds
    ]


def _spark_kind(kind: str, models: Manifest) -> Manifest:
    spec = _in_place(models["properties"]["spec"], models["$defs"])
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.lower()}s.sparkoperator.k8s.io",
            # asked for by the server, as the group's name ends in Kubernetes' own
            "annotations": {"api-approved.kubernetes.io": "unapproved, made for a test"},
        },
        "spec": {
            "group": "sparkoperator.k8s.io",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": f"{kind.lower()}s"},
            "versions": [
                {
                    "name": "v1beta2",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "apiVersion": {"type": "string"},
                                "kind": {"type": "string"},
                                "metadata": {"type": "object"},
                                "spec": spec,
                            },
                        }
                    },
                }
            ],
        },
    }


def _in_place(schema: Manifest, models: Manifest) -> Manifest:
    """Without references, and without the `null` that Python's models allow: as a CRD has it."""
    for one in (schema, *schema.get("anyOf", ())):
        if "$ref" in one:
            return _in_place(models[one["$ref"].rpartition("/")[2]], models)
    if "one_of_schemas" in schema.get("properties", ()):
        # the model of what is a number or a text, quantities included
        return {"x-kubernetes-int-or-string": True}
    own = next((one for one in schema.get("anyOf", ()) if one != {"type": "null"}), schema)
    made: Manifest = {"type": own["type"]}
    if isinstance(own.get("additionalProperties"), dict):
        made["additionalProperties"] = _in_place(own["additionalProperties"], models)
    if "items" in own:
        made["items"] = _in_place(own["items"], models)
    if "properties" in own:
        made["properties"] = {name: _in_place(part, models) for name, part in own["properties"].items()}
    if "required" in own:
        made["required"] = own["required"]
    return made


def _refuse_unknown(schema: Any) -> None:
    """As the API server does: a field that is not named is refused."""
    if isinstance(schema, list):
        for item in schema:
            _refuse_unknown(item)
    if not isinstance(schema, dict):
        return
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
        schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    for part in schema.values():
        _refuse_unknown(part)
