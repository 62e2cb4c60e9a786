"""The house rules: sizes, names and rooms, with file, line and rule where one is broken."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from importlinter.api import read_configuration

from tests import rooms

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "exporter").rglob("*.py"))
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
NAMELESS = {"it", "it_", "its"}
NAMELESS_IN = (ROOT / "hangbench" / "kafka", ROOT / "tests" / "brokers", ROOT / "tests" / "conftest.py")
"""The last files that have such names."""
UNCLEAR = re.compile(r"\b((was|were) (told|asked)|nobody|whom|meanwhile|anew|of ours|for good|a person|as measured)\b")

FRAGMENT = re.compile(
    r"(Of|Those|As|By|With|For|Without|Where|From|In|At|Also|Not|Before|After|To|Only|The same|Which|Whether|When|Why"
    r"|What|How|Who|Whom|Since|Until|Its?|If|On|Under|Between|Beyond|Like|Than|Then|So|Or|And|Instead)(?![\w-])"
)
"""Begins a docstring that lacks its subject."""
HOMONYMS = {
    "Marker": "one is read from a log, the other one is written by a request",
    "Partition": "one is Kafka's, the private one is PySpark's name for a part of a read",
    "Publication": "one is rendered, the private one holds the result for the web server",
    "Reader": "one reads clusters, the private one reads nodes of YAML",
    "Work": "one is scheduled in the daemon, the private one is a batch of the pipeline",
}
"""Names of classes in two modules, with the reason; at most seven."""

COUNTED = re.compile(
    r" (?:(?:more|new|open|share|suspect) )?(addresses|brokers|clusters|coordinators|days|files|groups|hours|markers"
    r"|offsets|partitions|producers|records|replicas|samples|suspects|topics|transactions)\b"
)
"""Follows a number in a sentence, and is false of one."""

HELD_IN_COLUMNS = {"Answer", "SecondRead", "StartSource", "Verdict"}


def functions() -> list[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    return [
        (path, node)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_files_and_functions_stay_small() -> None:
    """No file outgrows 400 lines, no function a screen of 70."""
    assert len(SOURCES) > 20
    too_long = [str(path) for path in SOURCES if len(path.read_text().splitlines()) > FILE_LINES_MAX]
    too_long += [
        f"{path}:{node.lineno} {node.name}"
        for path, node in functions()
        if (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]

    assert too_long == []


def test_every_file_opens_with_what_it_is() -> None:
    """A newcomer reads the first lines of a file and knows what lives there."""
    assert [str(path) for path in SOURCES if ast.get_docstring(ast.parse(path.read_text())) is None] == []


def test_every_file_is_described_in_one_sentence() -> None:
    """The first line ends with a full stop and fits into a table."""
    firsts = {path: (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0] for path in SOURCES}
    assert [f"{path}: {first}" for path, first in firsts.items() if not first.endswith((".", "?"))] == []


def test_variables_have_the_names_of_what_they_hold() -> None:
    """No variable, parameter or loop target is named `it` or `its`: the word does not say what it holds."""
    nameless = [
        f"{path}:{node.lineno}"
        for folder in ("exporter", "tests", "hangbench", "docs", "benchmarks", "examples", "grafana", "alerts", "helm")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path not in NAMELESS_IN and path.parent not in NAMELESS_IN
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Name) and node.id in NAMELESS) or (isinstance(node, ast.arg) and node.arg in NAMELESS)
    ]

    assert nameless == []


def test_messages_use_words_that_are_read_once() -> None:
    """Every text of the program but docstrings uses the common word: a broker is queried, data are returned."""
    found = []
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            f"{path}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings
            if UNCLEAR.search(node.value)
        ]

    assert found == []


def test_a_number_of_one_is_followed_by_no_plural() -> None:
    """`humanize_count` writes the noun of a count that may be 1; where it may not be imported, the number stands last."""
    plurals = []
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        chosen = {
            child
            for node in ast.walk(tree)
            if isinstance(node, ast.IfExp) and ast.unparse(node.test).endswith((" == 1", " != 1"))
            for child in ast.walk(node)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.JoinedStr) or node in chosen:
                continue
            plurals += [
                f"{path}:{number.lineno}: {ast.unparse(number.value)}{text.value!s}"
                for number, text in pairwise(node.values)
                if isinstance(number, ast.FormattedValue)
                if not re.match("[A-Z_]+$|humanize_count", ast.unparse(number.value))
                if isinstance(text, ast.Constant) and COUNTED.match(str(text.value))
            ]

    assert plurals == []


def test_docstrings_can_be_read_alone() -> None:
    """A docstring of a module, class, function or field has its own subject, so no line above it is needed."""
    fragments = [
        f"{path}:{node.lineno}: begins with a fragment; say who does what, or what it is: {node.value.value[:60]}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if FRAGMENT.match(node.value.value)
    ]

    assert fragments == []


def test_a_class_name_has_one_meaning() -> None:
    """Two modules declare no class of one name, private ones included, but those with a reason."""
    modules = defaultdict(set)
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                modules[node.name.lstrip("_")].add(str(path.relative_to(ROOT)))
    homonyms = {name: sorted(paths) for name, paths in modules.items() if len(paths) > 1}

    assert {name: paths for name, paths in homonyms.items() if name not in HOMONYMS} == {}, "rename one of them"
    assert HOMONYMS.keys() <= homonyms.keys(), "this name has one meaning now: remove it from the list"
    assert len(HOMONYMS) <= 7


def test_columns_meet_plain_integers() -> None:
    """NumPy looks for attributes on the class of what a column is compared with, and forgets an error that this raises.

    On an Enum, before Python 3.12, that runs Python code. A Ctrl-C at this instant was lost, and a watch went on.
    """

    def is_member(node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in HELD_IN_COLUMNS

    def meets_a_column(node: ast.AST) -> bool:
        if isinstance(node, ast.Compare):
            equal = any(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops)
            return equal and any(is_member(side) for side in (node.left, *node.comparators))
        return (
            isinstance(node, ast.Call) and ast.unparse(node.func).startswith("np.") and any(map(is_member, node.args))
        )

    assert [
        f"{path}:{node.lineno}: write int(...)"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.expr) and meets_a_column(node)
    ] == []


def test_no_room_escapes_the_contracts() -> None:
    """Contracts that must hold for all rooms but one list all of them."""
    contracts = read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"]
    at_the_border = next(contract for contract in contracts if contract["id"] == "clients-at-the-border")
    there = {
        path.stem if path.is_file() else path.name
        for path in (ROOT / "exporter").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert {each.removeprefix("exporter.") for each in at_the_border["source_modules"]} == there - {"__init__", "kafka"}


def test_the_core_can_be_read_alone() -> None:
    """It needs settings, files and connections; a reader of a verdict needs no page, history, table or command."""
    assert rooms.beyond() == ["config", "files.py", "kafka.client"]


def test_every_message_is_in_one_room() -> None:
    """Nobody else names kafka-python's requests, but for the login, which is part of a connection."""
    users = {
        str(path.relative_to(ROOT / "exporter" / "kafka"))
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kafka.protocol")
    }
    assert {user for user in users if not user.startswith("messages/")} == {
        "client/receiving.py",  # frames
        "client/transport.py",
    }


def test_tests_share_no_code_by_importing_each_other() -> None:
    """What several files need is a module without tests; fuzzing and the index of tests take whole test files."""
    importers = {
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests")
        if any(
            name.startswith("test_") for name in [*(node.module or "").split("."), *(each.name for each in node.names)]
        )
    }
    assert importers == {"tests/index.py", "tests/verification/fuzz/targets.py"}


def test_few_files_lie_loose() -> None:
    """Files that belong together are a room."""
    assert len(list((ROOT / "exporter").glob("[!_]*.py"))) <= 8


def test_the_command_line_is_the_only_reader_of_environment_and_argv() -> None:
    """`os.environ`, `os.getenv` and `sys.argv` occur in cli.py alone, but for variables that are set for libraries."""
    readers = {
        path.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "argv"}
    }

    assert readers == {
        "cli.py",
        "s3.py",  # gives three libraries of AWS the variables that each reads itself
    }


def test_once_imports_neither_scheduler_nor_web_server() -> None:
    """The one-shot command starts without what only the daemon needs, and numpy without a thread for each processor."""
    program = (
        "import os, sys; import exporter.cli, exporter.commands.once; print(os.environ['OPENBLAS_NUM_THREADS']); "
        "print(sorted({'exporter.daemon.scheduler', "
        "'hypercorn', 'uvicorn', 'aiohttp', 'confluent_kafka', 'prometheus_client', 'pyspark'}"
        " & set(sys.modules)))"
    )

    without = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=without)
    assert run.stdout == "1\n[]\n"
