"""values.schema.json: the shape of values.yaml, and what the program and the rules say of the rest.

Pure. Draft 7, which both majors of Helm read.
"""

from __future__ import annotations

from typing import Any, Final

from docs.generators.settings_schema import settings_schema
from exporter.artifacts.rules import (
    LABEL_NAME,
    key_of,
    labels_of_rules,
    page_of,
    reason_of,
    rule_groups,
    rules_of,
    threshold_limits,
    thresholds,
)
from exporter.config.fleet import OF_THE_PROCESS, SECTIONS
from exporter.config.values import DURATION, PAGE_URL_PATTERN
from helm.values import Value

Schema = dict[str, Any]

_DURATION: Final[Schema] = {"type": "string", "pattern": "^([0-9]+(ms|[smhdwy]))*$"}
_TYPES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


def values_schema(values: tuple[Value, ...]) -> Schema:
    """Of the whole file. `enabled` is what a parent chart's `condition` leaves here."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of kafka-transaction-exporter",
        **_mapping(values),
        "definitions": {
            "settings": _settings(),
            "clusters": _clusters(),
            "alerts": _alerts(),
            "thresholds": _thresholds(),
            "alertLabels": _alert_labels(),
            "pageUrl": {"type": "string", "pattern": PAGE_URL_PATTERN},
            "durations": _durations(),
            "duration": _DURATION,
            "probe": {"type": ["object", "null"]},
        },
    }


def _mapping(values: tuple[Value, ...]) -> Schema:
    properties = {value.path[-1]: _value(value) for value in values}
    if not values[0].path[:-1]:
        properties["enabled"] = {"type": "boolean", "description": "For a parent chart's condition; not read here."}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _value(value: Value) -> Schema:
    if not value.help:
        return {**_mapping(value.children), **value.schema}
    described = {"description": value.help}
    if "$ref" in value.schema:
        return {**described, "allOf": [{"$ref": f"#/definitions/{value.schema['$ref']}"}]}
    narrowed = {"type": _TYPES[type(value.default)], **value.schema} if value.default is not None else value.schema
    if "enum" in narrowed:
        narrowed.pop("type", None)
    return {**described, **narrowed}


def _settings() -> Schema:
    """The program's own; of a number that is no duration Helm says its type, and not that it must not be above 0.

    What a secret may be is said by the template, in better words than a schema's.
    """
    schema = {key: part for key, part in settings_schema().items() if key not in ("$schema", "title")}
    _durations_as_text(schema)
    return schema


def _clusters() -> Schema:
    """Names to the settings that a cluster of a fleet may have of its own."""
    schema = _settings()
    kept = {name: part for name, part in schema["properties"].items() if name.partition(".")[0] in SECTIONS}
    for name in OF_THE_PROCESS:
        section, _, rest = name.partition(".")
        del kept[name], kept[section]["properties"][rest]
    # Its pages would be at `..`, or below those of another cluster.
    names = {"not": {"pattern": "/|^[.]*$"}}
    return {"type": "object", "propertyNames": names, "additionalProperties": {**schema, "properties": kept}}


def _durations_as_text(schema: Schema) -> None:
    for part in schema.get("properties", {}).values():
        _durations_as_text(part)
        for kind in part.get("anyOf", ()):
            if kind == DURATION.schema:
                kind.update(type="string")
                del kind["minimum"], kind["maximum"]
                part.update({"if": {"enum": [0]}, "else": {"anyOf": part.pop("anyOf")}})
                break


def _alerts() -> Schema:
    names = sorted(
        {
            name
            for rule in rules_of(rule_groups())
            if "alert" in rule
            for name in (rule["alert"], page_of(rule), reason_of(rule))
        }
    )
    return _closed({name: {"type": "boolean"} for name in names})


def _thresholds() -> Schema:
    """Returns the limits that `rules --threshold` has."""
    limits = {name: threshold_limits(name) for name in sorted(thresholds(rule_groups()))}
    return _closed(
        {
            name: {"type": "number", "minimum": least, **({} if greatest is None else {"maximum": greatest})}
            for name, (least, greatest) in limits.items()
        }
    )


def _alert_labels() -> Schema:
    """Returns the names that `rules --label` takes."""
    return {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "propertyNames": {"pattern": LABEL_NAME, "not": {"enum": sorted(labels_of_rules(rule_groups()))}},
    }


def _durations() -> Schema:
    once = _closed({key: {"$ref": "#/definitions/duration"} for key in ("for", "keep_firing_for")})
    names = sorted(key_of(rule) for rule in rules_of(rule_groups()) if "severity" in rule.get("labels", {}))
    return _closed(dict.fromkeys(names, once))


def _closed(properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}
