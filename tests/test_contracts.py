"""The house rules: sizes, names and rooms, with file, line and rule where one is broken."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "exporter").rglob("*.py"))
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70


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


def test_the_command_line_is_the_only_reader_of_environment_and_argv() -> None:
    """`os.environ`, `os.getenv` and `sys.argv` occur in cli.py alone."""
    readers = {
        path.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "argv"}
    }

    assert readers == {"cli.py"}


def test_once_imports_neither_scheduler_nor_web_server() -> None:
    """The one-shot command starts without what only the daemon needs."""
    program = (
        "import sys; import exporter.cli, exporter.commands.once; "
        "print(sorted({'apscheduler', 'hypercorn', 'uvicorn', 'aiohttp', 'confluent_kafka', 'prometheus_client', 'pyspark'}"
        " & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
