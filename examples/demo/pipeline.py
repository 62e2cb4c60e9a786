"""`make demo-pipeline`: a minute of history of the demo, then the pipeline and its report.

DEMO_SECONDS is the length of the history, DEMO_OUTPUT the folder that is made (build/demo-pipeline; another one must be
empty); DEMO_PORT and DEMO_KAFKA_PORT are as in `make demo`. It ends by itself; Ctrl-C or a closed terminal ends it sooner,
and leaves no report. Its last line says what stays.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from html import unescape
from pathlib import Path
from typing import Final

from examples.demo.display import shown
from examples.demo.progress import Progress
from examples.demo.stage import END_SECONDS, OUTPUT, DemoFailed, number_in, run_demo, say, stage, what_stays
from hangbench.kafka.process import end_with_parent

SECONDS: Final = 60.0
SHOWN_EVERY: Final = 5
"""One cycle in so many: a report follows."""
SPARK_S_JARS: Final = "Spark's jars in ~/.ivy2*"
JOBS: Final = ("transactions", "stalls", "incidents", "baselines", "report", "compact")
"""As `pipeline run` prints them when they have ended."""


def main() -> int:
    """Run the demo; its exit status."""
    return run_demo(_run, end=lambda: f"ended before the report, whose folder is gone. {what_stays(SPARK_S_JARS)}")


def _run(port: int, kafka_port: int | None) -> None:
    seconds = number_in("DEMO_SECONDS", SECONDS, "a number of seconds", float)
    output = Path(os.environ.get("DEMO_OUTPUT") or OUTPUT).absolute()
    history, tables = output / "history", output / "tables"
    progress = Progress(sys.stdout)
    own = {history.name, tables.name} if output == OUTPUT.absolute() else set()
    if output.exists() and {path.name for path in output.iterdir()} - own:
        raise DemoFailed(f"{output} has other files: choose another folder with DEMO_OUTPUT")
    shutil.rmtree(output, ignore_errors=True)
    try:
        history.mkdir(parents=True)
        with stage(port, kafka_port, {"history.directory": str(history)}) as on:
            print(f"{seconds:g} seconds of history are recorded", flush=True)
            begun = time.monotonic()
            for number, cycle, _ in on.cycles(seconds):
                progress.clear()
                if number % SHOWN_EVERY == 0:
                    say(shown(number, cycle))
                passed = time.monotonic() - begun
                progress.show(f"history: {passed:.0f} of {seconds:g} s", passed / seconds)
            progress.clear()
        print("\nSpark makes tables, incidents, baselines and the report of it: about a minute ...", flush=True)
        _run_pipeline(history, tables, progress)
        say(f"{_look_here(history, tables)}\n{what_stays(str(output), SPARK_S_JARS)}")
    except BaseException:
        shutil.rmtree(output, ignore_errors=True)
        raise


def _run_pipeline(history: Path, tables: Path, progress: Progress) -> None:
    """As a user runs it. Raises DemoFailed."""
    with tempfile.TemporaryDirectory(prefix="demo-pipeline-") as temporary:
        command = [sys.executable, "-m", "exporter", "pipeline", "run", f"--history={history}", f"--tables={tables}"]
        process = subprocess.Popen(
            [*command, f"--temporary={temporary}"],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C of the terminal comes to the demo alone
            preexec_fn=end_with_parent(),  # noqa: PLW1509 - one bound call, see there
        )
        try:
            _follow(process, progress)
            status = process.wait()
        finally:
            progress.clear()
            _end(process)
        if status != 0:
            raise DemoFailed(f"the pipeline ended with status {status}; see above")


def _follow(process: subprocess.Popen[str], progress: Progress) -> None:
    """Prints its lines until it ends."""
    assert process.stdout is not None
    ended = 0
    progress.show(f"pipeline: {JOBS[0]}", 0)
    with process.stdout as lines:
        for line in lines:
            progress.clear()
            print(line, end="", flush=True)
            ended = max(ended, JOBS.index(job) + 1 if (job := line.partition(":")[0]) in JOBS else 0)
            progress.show(f"pipeline: {JOBS[ended] if ended < len(JOBS) else 'ends'}", ended / len(JOBS))


def _end(process: subprocess.Popen[str]) -> None:
    """With its Java, which writes for a moment after it; then the folders can be removed."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
    until = time.monotonic() + END_SECONDS
    with suppress(ProcessLookupError):  # none of the group is left
        while time.monotonic() < until:
            os.killpg(process.pid, signal.SIGKILL)
            process.poll()
            time.sleep(0.05)


def _look_here(history: Path, tables: Path) -> str:
    report = tables / "v1" / "report.html"
    summary = re.search(r'<p class="summary">(.*?)</p>', report.read_text(encoding="utf-8"), re.DOTALL)
    assert summary is not None, "the report begins with its sum"
    return (
        f"\n>>> the report says: {' '.join(unescape(re.sub('<[^>]+>', '', summary[1])).split())}\n"
        "\n>>> look here:\n"
        f"    report:  {report.as_uri()}\n"
        f"    tables:  {tables} (Delta tables; docs/tables.md has their columns)\n"
        f"    history: {history}\n"
        "    whether exactly-once held: docs/audit.md, on a cluster that runs (pipeline audit)\n"
    )


if __name__ == "__main__":
    sys.exit(main())
