"""Custom kinds that the chart makes: their CRDs, and the same as JSON schemas for kubeconform.

Those of the Prometheus operator come of its types; tests/helm/crds_by_hand/ has what was written by hand, and says why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.helm.manifests import Manifest, manifests
from tests.helm.tools import operator_crds

BY_HAND: Final = Path(__file__).parent / "crds_by_hand"


def crds_by_hand() -> list[Manifest]:
    return _crds(BY_HAND)


def all_crds() -> list[Manifest]:
    """Raises ToolUnavailable."""
    return [*_crds(operator_crds()), *crds_by_hand()]


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
