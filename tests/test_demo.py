"""`make demo` and `make demo-pipeline` as a newcomer runs them: they show the hang, and leave nothing behind."""

from __future__ import annotations

import io
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from examples.demo.__main__ import _now_try
from examples.demo.display import _in_words
from examples.demo.progress import Progress
from examples.demo.stage import what_stays
from hangbench.kafka.ports import free_ports
from hangbench.waiting import until

PATIENCE_S = 30
COMMAND = [sys.executable, "-m", "examples.demo"]
PIPELINE = [sys.executable, "-m", "examples.demo.pipeline"]
ROOT = Path(__file__).parents[1]


def environment(folder: Path, **variables: str) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1", **variables}


def processes_with(text: str) -> list[str]:
    """Command lines of running processes that contain `text`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in command:
            found.append(command)
    return found


def _after_the_line(printed: list[str], command: str) -> list[str]:
    """A shell that gets the one line that the demo prints for it, and then the command."""
    (line,) = [line.strip() for line in printed if line.startswith("    export ")]
    return ["bash", "-uc", f"{line} && {command}"]


RUNBOOK_S_COMMAND = (
    "kafka-transaction-exporter abort --topic $TOPIC --partition $PARTITION --start-offset $START_OFFSET --dry-run"
)


def run_after(printed: list[str], command: str) -> subprocess.CompletedProcess[str]:
    """The command as a newcomer pastes it."""
    return subprocess.run(_after_the_line(printed, command), capture_output=True, text=True, check=False)


def page_info(port: int) -> str:
    """The address of the status page as alerts have it: the metric that `page_url` reads."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as response:
        found = re.search(
            r'^kafka_transaction_exporter_page_info\{.*?url="(.*?)".*\} 1', response.read().decode(), re.MULTILINE
        )
    return found[1] if found else ""


def blocked_groups(find_hanging: list[str]) -> str:
    """The command's line about groups, once the demo's own has come to the hang."""
    table = until(
        lambda: subprocess.run(find_hanging, capture_output=True, text=True, check=False).stdout,
        lambda table: "(blocked" in table,
        patience_s=PATIENCE_S,
    )
    return next(line.strip() for line in table.splitlines() if line.startswith("  Consumer groups: "))


def assert_it_says_what_is_true(text: str, port: int) -> None:
    """The cause is the one that `explain` names, not_added; where the post-mortem is, is said when there is one."""
    assert re.search(rf"as a post-mortem: http://127.0.0.1:{port}/incidents/\w+Z\.md\n", text), text
    assert "that has not added the partition to a transaction" in text


@pytest.mark.programs
def test_its_line_can_be_pasted_whatever_folder_the_clone_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may have a blank, as that of temporary files may."""
    monkeypatch.setattr(sys, "executable", "/home/me/my clone/.venv/bin/python")
    printed = [*_now_try("127.0.0.1:9092", "http://127.0.0.1:9814", "/tmp/of me", 7, 9814)]
    shown = subprocess.run(
        _after_the_line(printed, 'echo "${PATH%%:*} $KAFKA_TRANSACTION_EXPORTER__STATE__FILE $START_OFFSET"'),
        capture_output=True,
        text=True,
        check=False,
    )

    assert shown.stdout == "/home/me/my clone/.venv/bin /tmp/of me/state.json 7\n", shown


@pytest.mark.broker
@pytest.mark.parametrize(
    "ended_by",
    [
        pytest.param(signal.SIGINT, id="Ctrl-C", marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, id="a closed terminal"),
    ],
)
def test_the_demo_shows_the_hang_and_leaves_nothing_behind(ended_by: signal.Signals, tmp_path: Path) -> None:
    """It says what to try next; tried, the hang is cleared, and it says so. Ended, it leaves no file and no process."""
    printed: list[str] = []
    answers: list[subprocess.CompletedProcess[str]] = []
    waiting, page_url, plan, rules = "", "", None, None
    port, kafka_port = free_ports(2)
    variables = environment(tmp_path, DEMO_PORT=str(port), DEMO_KAFKA_PORT=str(kafka_port))
    with subprocess.Popen(
        COMMAND, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:
        assert demo.stdout is not None
        try:
            for line in demo.stdout:
                printed.append(line)
                if "status page: " in line:
                    why, find, dry, write, rule_file = [line for line in printed if line.startswith("    ktx ")]
                    answers = [run_after(printed, command) for command in (why, find, dry)]
                    waiting = blocked_groups(_after_the_line(printed, f"{find.strip()} --format=table"))
                    page_url = page_info(port)
                    rules = run_after(printed, rule_file.partition(" > ")[0])
                    plan = run_after(printed, RUNBOOK_S_COMMAND)
                    answers.append(run_after(printed, f"{write.strip()} --yes"))
                if line.startswith(">>> cleared: "):
                    demo.send_signal(ended_by)
                    break
            printed += demo.stdout.readlines()
            assert demo.wait(30) == 0
        finally:
            demo.kill()
    text = "".join(printed)

    assert f"http://127.0.0.1:{port}/metrics" in text
    assert f"Kafka is up at 127.0.0.1:{kafka_port}" in text or f"Kafka is up at localhost:{kafka_port}" in text
    assert [answer.returncode for answer in answers] == [0, 0, 0, 0], (answers, text)
    assert "abandoned-app" in answers[1].stdout
    assert plan is not None
    assert ": nothing is written" in plan.stdout, plan
    assert ": nothing is written" in answers[2].stdout
    # What a command proposes runs in the same shell: the demo names no other way to call the program.
    assert "\nNext: kafka-transaction-exporter abort --topic orders " in answers[2].stdout
    assert_it_says_what_is_true(text, port)
    assert "order-emails (blocked" in waiting
    assert "SUSPECT orders-1 hanging_not_in_transaction: transactional id 'abandoned-app'" in text
    assert re.search(r"cycle 3 .* 0 unread, \d+ with open transactions, 0 late, 1 suspect", text)
    # A cycle is printed when its result has changed.
    results = re.findall(
        r"^cycle .* (\d+ partitions read, \d+ unread), .* (\d+ late, \d+ suspect)$", text, re.MULTILINE
    )
    assert len(results) >= 3, text
    assert all(one != other for one, other in itertools.pairwise(results)), text
    assert "TRANSACTIONAL_ID=abandoned-app GROUP=order-emails\n" in text
    assert rules is not None
    assert f"runbook_url: http://127.0.0.1:{port}/runbooks/KafkaTransactionHanging.md" in rules.stdout, rules
    assert "ended: broker, workload and exporter are gone. What stays: " in printed[-1]
    assert page_url == f"http://127.0.0.1:{port}"
    assert list(tmp_path.iterdir()) == []
    assert processes_with(str(tmp_path)) == []
    assert processes_with(f"publish.listen-address=127.0.0.1:{port}") == []


@pytest.mark.parametrize(("prefix", "named"), [("build/demo", "build/demo"), (".venv", ".venv"), ("/opt/x", "/opt/x")])
def test_what_stays_names_the_folder_that_was_used(
    prefix: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all packages are installed the demo uses these: it is not always build/demo."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(Path.cwd() / prefix))
    monkeypatch.setenv("KAFKA_JARS_CACHE", "/var/jars")

    assert (
        what_stays("a log")
        == f"What stays: a log, packages in {named}, jars in /var/jars, and what Maven keeps in ~/.m2"
    )


def test_what_stays_names_what_earlier_demos_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo after that of the pipeline uses other packages, and the report is still there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setenv("KAFKA_JARS_CACHE", "/var/jars")
    for folder in (".venv", "build/demo", "build/demo-pipeline"):
        (tmp_path / folder).mkdir(parents=True)
    rest = "packages in .venv and build/demo, jars in /var/jars, and what Maven keeps in ~/.m2"

    assert what_stays("a log") == f"What stays: a log, build/demo-pipeline, {rest}"
    own = str(tmp_path / "build" / "demo-pipeline")
    assert what_stays(own) == f"What stays: {own}, {rest}"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_bar_is_below_all_lines_of_a_terminal_and_in_no_file(*, is_terminal: bool) -> None:
    """It is removed before a line is printed."""
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal  # type: ignore[method-assign]
    progress = Progress(stream)
    progress.show("history: 30 of 60 s", 0.5)
    progress.clear()
    stream.write("a line\n")
    progress.show("ends", 2)
    progress.clear()
    progress.show("cycle 3")

    half, whole = "#" * 15 + "." * 15, "#" * 30
    bars = f"\r\x1b[K[{half}] history: 30 of 60 s\r\x1b[Ka line\n\r\x1b[K[{whole}] ends\r\x1b[K\r\x1b[Kcycle 3"
    assert stream.getvalue() == (bars if is_terminal else "a line\n")


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.slow
def test_the_pipeline_demo_ends_with_the_report(tmp_path: Path) -> None:
    """After a short history: the hang is the report's incident, and nothing is left but the folder that it names."""
    output, temporary = tmp_path / "output", tmp_path / "temporary"
    temporary.mkdir()
    port, kafka_port = free_ports(2)
    variables = environment(temporary, DEMO_PORT=str(port), DEMO_KAFKA_PORT=str(kafka_port), DEMO_SECONDS="20")
    run = subprocess.run(
        PIPELINE, cwd=ROOT, env={**variables, "DEMO_OUTPUT": str(output)}, capture_output=True, text=True, check=False
    )
    report = re.search(r"^    report:  file://(.+)$", run.stdout, re.MULTILINE)

    assert (run.returncode, report is None) == (0, False), run.stderr
    assert re.search(r"^>>> the report says: 1 open incident", run.stdout, re.MULTILINE), run.stdout
    assert report is not None
    text = Path(report[1]).read_text()
    assert "abandoned-app" in text
    assert "order-emails" in text
    assert run.stdout.splitlines()[-1].startswith(f"What stays: {output}, Spark's jars in ")
    assert {path.name for path in output.iterdir()} == {"history", "tables"}
    assert list(temporary.iterdir()) == []
    assert processes_with(str(tmp_path)) == []


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGHUP], ids=["Ctrl-C", "a closed terminal"])
def test_the_pipeline_demo_leaves_nothing_when_it_is_ended(ended_by: signal.Signals, tmp_path: Path) -> None:
    """While Spark works; the signal comes to all processes at once, as from a terminal."""
    output, temporary = tmp_path / "output", tmp_path / "temporary"
    temporary.mkdir()
    port, kafka_port = free_ports(2)
    variables = environment(temporary, DEMO_PORT=str(port), DEMO_KAFKA_PORT=str(kafka_port), DEMO_SECONDS="6")
    with subprocess.Popen(
        PIPELINE,
        cwd=ROOT,
        env={**variables, "DEMO_OUTPUT": str(output)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as demo:
        assert demo.stdout is not None
        try:
            for line in demo.stdout:
                if line.startswith("transactions: "):  # Spark has done its first job
                    assert processes_with(str(temporary)) != []
                    os.killpg(demo.pid, ended_by)
                    break
            printed = demo.stdout.read()
            assert demo.wait(60) == 0
        finally:
            demo.kill()

    assert "ended before the report, whose folder is gone. What stays: Spark's jars" in printed
    assert list(tmp_path.iterdir()) == [temporary]
    assert list(temporary.iterdir()) == []
    assert processes_with(str(tmp_path)) == []


@pytest.mark.parametrize("name", ["letter.txt", "history/day.parquet"])
def test_the_pipeline_demo_removes_no_file_of_others(name: str, tmp_path: Path) -> None:
    """A history may be that of a cluster."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("dear")
    variables = environment(tmp_path, DEMO_PORT=str(free_ports(1)[0]), DEMO_OUTPUT=str(tmp_path))
    run = subprocess.run(PIPELINE, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60, check=False)

    assert run.returncode == 1
    assert run.stderr == f"demo: {tmp_path} has other files: choose another folder with DEMO_OUTPUT\n"
    assert (tmp_path / name).read_text() == "dear"


def test_an_output_that_is_no_folder_gets_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    variables = environment(tmp_path, DEMO_PORT=str(free_ports(1)[0]), DEMO_OUTPUT=str(file))
    run = subprocess.run(PIPELINE, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60, check=False)

    assert run.returncode == 1
    assert run.stderr == f"demo: [Errno 20] Not a directory: '{file}'\n"


def test_a_busy_port_gets_one_sentence(tmp_path: Path) -> None:
    """Before anything is booted, a taken port is reported in one line."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        variables = environment(tmp_path, DEMO_PORT=str(port))
        run = subprocess.run(COMMAND, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60, check=False)

    assert run.returncode == 1
    assert run.stderr == (
        f"demo: port {port} cannot be used (Address already in use): choose others with DEMO_PORT and DEMO_KAFKA_PORT\n"
    )


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"DEMO_SECONDS": "soon"}, "DEMO_SECONDS must be a number of seconds, not 'soon'"),
        ({"DEMO_PORT": "http"}, "DEMO_PORT must be a port, not 'http'"),
        ({"DEMO_PORT": "inf"}, "DEMO_PORT must be a port, not 'inf'"),
        ({"DEMO_PORT": "0"}, "DEMO_PORT must be a port, not '0'"),
        ({"DEMO_KAFKA_PORT": "70000"}, "port 70000 cannot be used"),
    ],
    ids=["seconds", "port", "no number", "any port", "kafka port"],
)
def test_a_wrong_variable_gets_one_sentence(variables: dict[str, str], sentence: str, tmp_path: Path) -> None:
    run = subprocess.run(
        COMMAND,
        cwd=ROOT,
        env=environment(tmp_path, **{"DEMO_PORT": str(free_ports(1)[0]), **variables}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert run.returncode == 1
    assert run.stderr.startswith(f"demo: {sentence}")
    assert run.stderr.count("\n") == 1


@pytest.mark.programs
@pytest.mark.parametrize(("missing", "hint"), [("java", "openjdk-17"), ("mvn", "maven")])
def test_a_missing_program_gets_one_sentence(tmp_path: Path, missing: str, hint: str) -> None:
    """Without Java or Maven `make demo` says so in one line, and what to install."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "java", "make", "mvn", "sed", "touch", "env", "python3"):
        found = subprocess.run(["which", name], capture_output=True, text=True, check=True).stdout.strip()
        if name != missing:
            (programs / name).symlink_to(found)
    variables = {**os.environ, "PATH": str(programs)}
    variables.pop("MAKEFLAGS", None)

    run = subprocess.run(
        ["make", "demo"], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60, check=False
    )

    assert run.returncode != 0
    sentence, *rest = run.stderr.splitlines()
    assert "missing" in sentence
    assert hint in sentence
    assert all(line.startswith("make") for line in rest)


@pytest.mark.parametrize(
    ("transactional_id", "named"), [("billing", "transactional id 'billing'"), ("", "its id is unknown")]
)
def test_a_suspect_without_a_known_id_is_not_shown_with_an_empty_one(transactional_id: str, named: str) -> None:
    labels = {"topic": "orders", "partition": "1", "verdict": "inconclusive", "producer_id": "4", "start_offset": "36"}

    shown = _in_words({**labels, "transactional_id": transactional_id})

    assert shown == f"orders-1 inconclusive: {named}, producer 4, offset 36"
