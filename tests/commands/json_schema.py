"""The schema of `--format json`: its lists come from the code, and printed values are checked with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from exporter.evaluation.field_types import ColumnType, Field, Output
from exporter.evaluation.fields import fields_of

PATH = Path(__file__).parents[2] / "docs" / "schema" / "find-hanging.schema.json"
_TYPES = {
    ColumnType.TEXT: "string",
    ColumnType.INTEGER: "integer",
    ColumnType.LONG: "integer",
    ColumnType.INSTANT: "integer",
    ColumnType.FLAG: "boolean",
}


def with_declared_fields(text: str) -> str:
    """The schema's text, in which a transaction has the declared fields; all else stays as it is written."""
    schema = json.loads(text)
    fields = fields_of(Output.JSON)
    schema["$defs"]["transaction"] = {
        "type": "object",
        "required": [field.name_in(Output.JSON) for field in fields],
        "properties": {field.name_in(Output.JSON): _property(field) for field in fields},
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _property(field: Field) -> dict[str, Any]:
    meaning = f"{field.meaning[0].upper()}{field.meaning[1:]}."
    described = {"description": f"{meaning} Null {field.null}." if field.null else meaning}
    if field.kind is ColumnType.TEXTS:
        items = {"type": "string"} if field.record is None else {"$ref": f"#/$defs/{field.record.__name__}"}
        return {"type": "array", "items": items, **described}
    if field.record is not None:
        return {"anyOf": [{"$ref": f"#/$defs/{field.record.__name__}"}, {"type": "null"}], **described}
    if field.labels:
        return {"enum": [*field.labels, *([None] if field.null else [])], **described}
    kind = _TYPES[field.kind]
    at_least = {"minimum": field.minimum} if kind == "integer" and field.minimum is not None else {}
    return {"type": [kind, "null"] if field.null else kind, **at_least, **described}


def problems(value: Any) -> list[str]:
    """The problems of `value` with their places; a key that the schema does not describe is a problem as well."""
    schema = json.loads(PATH.read_text(), object_hook=_without_other_keys)
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(value)]


def _without_other_keys(part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "additionalProperties": False} if part.get("type") == "object" and "properties" in part else part
