"""The schema of `--format json`: its lists come from the code, and printed values are checked with it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from exporter.evaluation.verdicts import OutcomeEvidence, StartSource, Verdict

PATH = Path(__file__).parents[2] / "docs" / "schema" / "find-hanging.schema.json"
NAMES: dict[str, Sequence[str]] = {
    "verdict": [verdict.label for verdict in Verdict],
    "start_source": [source.label for source in StartSource],
    "outcome_evidence": [evidence.value for evidence in OutcomeEvidence],
}


def with_names_of_the_code(text: str) -> str:
    """The schema's text; the lists of NAMES are the code's, in its order."""
    for key, names in NAMES.items():
        before, found, rest = text.partition(f'"{key}": {{')
        assert found, key
        text = before + found + re.sub(r'("enum": )\[[^\]]*\]', rf"\1{json.dumps(names)}", rest, count=1)
    return text


def problems(value: Any) -> list[str]:
    """The problems of `value` with their places; a key that the schema does not describe is a problem as well."""
    schema = json.loads(PATH.read_text(), object_hook=_without_other_keys)
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(value)]


def _without_other_keys(part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "additionalProperties": False} if part.get("type") == "object" and "properties" in part else part
