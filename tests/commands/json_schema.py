"""Holding a value to a JSON Schema. Knows the few keywords that our schema uses, and refuses a schema with others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PATH = Path(__file__).parents[2] / "docs" / "schema" / "find-hanging.schema.json"
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
NOTES = {"$schema", "$defs", "title", "description"}
KEYWORDS = {"$ref", "type", "enum", "minimum", "required", "properties", "items"}


def problems(value: Any, schema: dict[str, Any] | None = None, *, is_strict: bool = True) -> list[str]:
    """What is wrong with `value`, with its place. Strict: a key that the schema does not describe is wrong as well."""
    root = json.loads(PATH.read_text()) if schema is None else schema
    return _problems(value, root, root, "$", is_strict=is_strict)


def _problems(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str, *, is_strict: bool) -> list[str]:
    unknown = schema.keys() - NOTES - KEYWORDS
    assert not unknown, f"{at}: this checker does not know {unknown}"
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{at}: {value!r} is none of {schema['enum']}"]
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if not any(_is(value, kind) for kind in kinds):
        return [f"{at}: {value!r} is no {' or '.join(kinds)}"]
    found = []
    if "minimum" in schema and value is not None and value < schema["minimum"]:
        found.append(f"{at}: {value} is less than {schema['minimum']}")
    if isinstance(value, dict):
        found += _problems_of_keys(value, schema, root, at, is_strict=is_strict)
    if isinstance(value, list):
        for index, inner in enumerate(value):
            found += _problems(inner, schema["items"], root, f"{at}[{index}]", is_strict=is_strict)
    return found


def _problems_of_keys(
    value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any], at: str, *, is_strict: bool
) -> list[str]:
    properties = schema.get("properties", {})
    found = [f"{at}.{key}: is missing" for key in schema.get("required", ()) if key not in value]
    for key, inner in value.items():
        if key in properties:
            found += _problems(inner, properties[key], root, f"{at}.{key}", is_strict=is_strict)
        elif is_strict:
            found.append(f"{at}.{key}: is not described")
    return found


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
