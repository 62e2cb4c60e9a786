"""The thread map in ARCHITECTURE.md names every place of the exporter that starts a thread or makes a lock."""

from __future__ import annotations

import ast

import pytest

from tests.threads import ARCHITECTURE, BEGIN, ROOT, Place, in_code, in_map, in_source


def test_the_thread_map_names_every_thread_and_every_lock() -> None:
    """A new one needs a row that says what it may touch, and how it ends."""
    there, mapped = in_code(), in_map(ARCHITECTURE.read_text(encoding="utf-8"))

    assert len(there) > 30
    assert sorted(map(row, there - mapped)) == [], f"write these rows below {BEGIN.strip()!r} in ARCHITECTURE.md"
    assert sorted(map(row, mapped - there)) == [], f"remove these rows below {BEGIN.strip()!r} in ARCHITECTURE.md"


def test_no_thread_keeps_the_process_alive() -> None:
    """Each is a daemon thread."""
    kept = [
        f"{path}:{node.lineno}"
        for path in (ROOT / "exporter").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"threading.Thread", "Thread"}
        if not any(keyword.arg == "daemon" and ast.unparse(keyword.value) == "True" for keyword in node.keywords)
    ]

    assert kept == []


def row(place: Place) -> str:
    """The beginning of its row."""
    return f"| `{place.file}` | `{place.name}` | {place.kind} |"


@pytest.mark.parametrize(
    ("source", "places"),
    [
        ("class A:\n def __init__(self):\n  self._t = threading.Thread(target=f)", [("A", "thread")]),
        ("class A:\n def go(self):\n  Thread(target=f).start()", [("A.go", "thread")]),
        ("class A:\n _lock: threading.Lock = field(default_factory=threading.Lock)", [("A._lock", "lock")]),
        ("class A:\n def __init__(self):\n  self._lock = threading.RLock()", [("A._lock", "lock")]),
        ("_lock = Lock()", [("_lock", "lock")]),
        ("def race():\n begin = Barrier(2)", [("race", "lock")]),
        ("def race():\n with ThreadPoolExecutor(2) as pool: pass", [("race", "pool")]),
        ("def ask():\n timer = threading.Timer(1, f)", [("ask", "timer")]),
        ("def ask():\n asyncio.run(f())", [("ask", "event loop")]),
        ("def ask():\n signal.signal(signal.SIGTERM, f)", [("ask", "signal handler")]),
        ("def ask():\n subprocess.run(['ls'])", [("ask", "process")]),
        ("def ask():\n fcntl.flock(file, 2)", [("ask", "file lock")]),
        ("import threading\nfrom threading import Thread\nthread: Thread | None = None", []),
        ("def ask(lock: threading.Lock) -> threading.Thread:\n connections.run(f)", []),
    ],
)
def test_every_way_to_start_a_thread_or_to_make_a_lock_is_found(source: str, places: list[tuple[str, str]]) -> None:
    """And no annotation, import, or method of the same name."""
    assert [(place.name, place.kind) for place in in_source("a.py", source)] == places


def test_only_rows_of_the_thread_map_count() -> None:
    """A table of another section, and a row in another form, name nothing."""
    before, after = "| `a.py` | `A` | thread |", "## More\n| `d.py` | `D` | lock |"
    text = f"{before}\n{BEGIN}\n| `b.py` | `B.go` | file lock | x |\n`c.py` `C`\n{after}"

    assert in_map(text) == {Place("b.py", "B.go", "file lock")}
