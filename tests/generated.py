"""Makes every file that is generated from other files of the project, without a broker: `make generate` writes them all.

A step reads what the steps before it have written. tests/test_generated.py compares every file with what is made now.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

import alerts.document
from alerts import FOLDER
from alerts.mixin_source import MIXIN, mixin
from benchmarks.document import DOCUMENT, FIGURES
from benchmarks.document import document as performance_document
from docs.generators.example_file import example_file
from docs.generators.history_schema import history_schema
from docs.generators.metrics_document import metrics_document
from docs.generators.settings_document import settings_document
from docs.generators.settings_schema import settings_schema
from docs.generators.tables_document import audit_tables, column_tables
from exporter.artifacts.rules import ALERTS, RECORDING, load
from grafana.dashboards import DASHBOARDS, text_of
from helm.made import CHART, made_files
from tests import index, platforms, rooms, words
from tests.commands.golden import GOLDEN
from tests.commands.json_schema import PATH as SCHEMA
from tests.commands.json_schema import with_declared_fields
from tests.helm.chart import render
from tests.publication.scenarios import SCENARIOS
from tests.publication.scenarios import render as exposition

ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Step:
    """Files that are made together."""

    make: Callable[[], Mapping[str, str]]
    """Path below the project -> text."""
    nothing_else: str | None = None
    """A pattern of paths: every file that fits is made by this step, or is left over."""


def _of_tables() -> dict[str, str]:
    return {
        "ARCHITECTURE.md": _with_table("ARCHITECTURE.md", "rooms", rooms.table()),
        "docs/alerting.md": _with_table("docs/alerting.md", "alerts", alerts.document.table()),
        "docs/configuration.md": settings_document(),
        "docs/metrics.md": metrics_document(),
        "docs/platforms.md": _with_table("docs/platforms.md", "platforms", platforms.table()),
        "docs/schema/config.schema.json": json.dumps(settings_schema(), indent=2) + "\n",
        _below(SCHEMA): with_declared_fields(SCHEMA.read_text(encoding="utf-8")),
        "docs/schema/history.schema.json": json.dumps(history_schema(), indent=2) + "\n",
        "examples/config.yaml": example_file(),
        "tests/verification/README.md": _with_table("tests/verification/README.md", "words", words.table()),
    }


def _of_runbooks() -> dict[str, str]:
    """The same first block in each, below the names of its alerts; the page that is common to all has none."""
    names = [f"{_below(FOLDER)}/runbooks/{path.name}" for path in sorted((FOLDER / "runbooks").glob("Kafka*.md"))]
    return {name: _with_table(name, "first", alerts.document.first_block(Path(name).stem)) for name in names}


def _columns() -> dict[str, str]:
    made = {}
    for path, tables in (("docs/tables.md", column_tables()), ("docs/audit.md", audit_tables())):
        text = (ROOT / path).read_text(encoding="utf-8")
        for name, table in tables.items():
            text = _between_marks(path, text, name, table)
        made[path] = text
    return made


def _with_table(document: str, name: str, table: str) -> str:
    """The document, with the table between its two marks."""
    return _between_marks(document, (ROOT / document).read_text(encoding="utf-8"), name, table)


def _between_marks(document: str, text: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name}: made by `make generate` -->\n", f"<!-- end of {name} -->\n"
    before, begun, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    assert begun, f"{document} lacks the line {begin}"
    assert ended, f"{document} lacks the line {end}"
    return f"{before}{begin}{table}{end}{after}"


def _performance() -> dict[str, str]:
    return {_below(DOCUMENT): performance_document(json.loads(FIGURES.read_text(encoding="utf-8")))}


def _mixin() -> dict[str, str]:
    return {_below(MIXIN): mixin(load(RECORDING), load(ALERTS))}


def _dashboards() -> dict[str, str]:
    return {f"grafana/{name}.json": text_of(make()) for name, make in DASHBOARDS.items()}


def _chart() -> dict[str, str]:
    return {f"{_below(CHART)}/{name}": text for name, text in made_files().items()}


def _command_output() -> dict[str, str]:
    return {f"tests/commands/golden/{name}.txt": make() + "\n" for name, make in GOLDEN.items()}


def _expositions() -> dict[str, str]:
    made = {name: exposition(scenario()).text.body.decode() for name, scenario in SCENARIOS.items()}
    return {f"tests/publication/expected/{name}.txt": text for name, text in made.items()}


def _index_of_tests() -> dict[str, str]:
    return {"tests/README.md": index.text()}


def _installed_by_default() -> dict[str, str]:
    return {"tests/helm/golden/minimal.yaml": yaml.safe_dump_all(render("minimal"), sort_keys=False)}


BY_HELM: Final = "installed by default"
"""The step that needs a program, Helm."""
STEPS: Final[Mapping[str, Step]] = {
    "tables": Step(_of_tables),
    "runbooks": Step(_of_runbooks),
    "columns of the pipeline": Step(_columns),
    "performance": Step(_performance),
    "mixin": Step(_mixin),
    "dashboards": Step(_dashboards, "grafana/*.json"),
    "chart": Step(_chart, f"{CHART.relative_to(ROOT)}/files/**/*.*"),
    "command output": Step(_command_output, "tests/commands/golden/*"),
    "expositions": Step(_expositions, "tests/publication/expected/*"),
    "index of tests": Step(_index_of_tests),
    BY_HELM: Step(_installed_by_default, "tests/helm/golden/*"),
}


def left_over(step: Step, made: Mapping[str, str]) -> set[str]:
    """Files that an earlier version of the step made."""
    there = ROOT.glob(step.nothing_else) if step.nothing_else else ()
    return {_below(path) for path in there} - set(made)


def main() -> None:
    """Write what differs, remove what is left over, and say so."""
    for step in STEPS.values():
        made = step.make()
        for name in sorted(left_over(step, made)):
            (ROOT / name).unlink()
            print(f"removed {name}")
        for name, text in made.items():
            path = ROOT / name
            if not path.exists() or path.read_bytes() != text.encode():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode())
                print(f"wrote {name}")


def _below(path: Path) -> str:
    return str(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
