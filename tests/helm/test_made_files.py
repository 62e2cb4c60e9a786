"""The chart's generated files match their sources."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml

from docs.generators.settings_schema import settings_schema
from exporter.config.settings import BY_NAME
from helm.made import CHART, DASHBOARDS, ROOT, inhibitions
from helm.values import UndocumentedError, documented, read_values

VALUES = (CHART / "values.yaml").read_text()


def test_the_chart_carries_the_dashboards_and_no_others() -> None:
    carried = {path.name: path.read_text() for path in (CHART / DASHBOARDS).iterdir()}

    assert carried == {path.name: path.read_text() for path in (ROOT / "grafana").glob("*.json")}


def test_every_value_is_documented() -> None:
    """In place and in the README, which has a row for each and for nothing else."""
    names = [value.name for value in documented(read_values(VALUES))]
    rows = [line.split("`")[1] for line in (CHART / "README.md").read_text().splitlines() if line.startswith("| `")]

    assert len(names) > 150
    assert rows == names


def test_a_value_without_a_word_is_refused() -> None:
    with pytest.raises(UndocumentedError, match=r"values\.yaml:4: a\.b has no"):
        read_values("# -- said\nc: 1\na:\n  b: 1\n")


def test_defaults_and_examples_fit_the_schema() -> None:
    """By another reader of schemas than Helm's."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)

    for path in [CHART / "values.yaml", *sorted((CHART / "ci").glob("*.yaml"))]:
        jsonschema.validate(yaml.safe_load(path.read_text()), schema, jsonschema.Draft7Validator)


@pytest.mark.parametrize(
    "value", [0, 1, 30, 1.5, True, "", "0", "10s", "1.5h", "ten", "${env:VALUE}", ["a.*"], {"a": 1}]
)
def test_the_chart_takes_the_settings_that_the_program_takes(value: object) -> None:
    """Its schema says some errors in other words, and refuses nothing else: 0 is a duration without a unit."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    of_chart = jsonschema.Draft7Validator({**schema, **schema["definitions"]["settings"]})
    of_program = jsonschema.Draft202012Validator(settings_schema())

    takes = [(name, of_chart.is_valid({name: value}), of_program.is_valid({name: value})) for name in BY_NAME]

    assert [name for name, by_chart, by_program in takes if by_chart is not by_program] == []
    assert len(takes) > 50


def test_a_parent_chart_may_say_enabled() -> None:
    """A condition leaves that key among the chart's values; a closed schema would refuse the whole parent."""
    schema = json.loads((CHART / "values.schema.json").read_text())

    jsonschema.validate({"enabled": True, "global": {"anything": 1}}, schema, jsonschema.Draft7Validator)


def test_inhibitions_are_those_of_the_example() -> None:
    """Written in the operator's form, and back again: the same matchers."""
    example = yaml.safe_load((ROOT / "alerts" / "alertmanager.yaml").read_text())["inhibit_rules"]

    def parts(text: str) -> str:
        return text.replace('"', "").replace(" ", "")

    assert [
        {
            "source_matchers": ["".join((one["name"], one["matchType"], one["value"])) for one in rule["sourceMatch"]],
            "target_matchers": ["".join((one["name"], one["matchType"], one["value"])) for one in rule["targetMatch"]],
            "equal": rule["equal"],
        }
        for rule in inhibitions()
    ] == [
        {
            "source_matchers": [parts(text) for text in rule["source_matchers"]],
            "target_matchers": [parts(text) for text in rule["target_matchers"]],
            "equal": rule["equal"],
        }
        for rule in example
    ]


def test_the_chart_is_of_this_version() -> None:
    """Its `appVersion` names the image that is pulled."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()

    assert f'version = "{chart["appVersion"]}"' in project


def test_no_registry_is_taken_for_granted() -> None:
    """No file of the chart names a host for images: a mirror is a value."""
    values = yaml.safe_load(VALUES)

    assert values["image"]["registry"] == values["global"]["imageRegistry"] == ""
    assert "/" not in values["image"]["repository"]
    assert not any(":latest" in path.read_text() for path in CHART.rglob("*.yaml"))
