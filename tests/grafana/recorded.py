"""A real Prometheus that holds every scenario, each at its own time, with the rules of `alerts/` applied to it.

The scrapes become blocks by `promtool tsdb create-blocks-from openmetrics`, so that no test waits for a clock. The rules
become blocks by `create-blocks-from rules`, layer by layer: a rule that reads another's record is applied after it.

Simplified: promtool records rules and does not alert, so an alert is recorded as the series ALERTS that it would have. What
`for` and `keep_firing_for` do to it is left out. No staleness markers are written: what a target that is gone last said
stays for five minutes, so nothing is asked so soon after.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from hangbench.kafka.ports import free_ports
from hangbench.kafka.process import end_with_parent
from tests.grafana.scenarios import LASTS_MS, SCENARIOS, Scrape, played

ROOT: Final = Path(__file__).parents[2]
RULES: Final = (ROOT / "alerts" / "recording.yaml", ROOT / "alerts" / "alerts.yaml")
FIRST_MS: Final = 1_768_435_200_000
"""2026-01-15 00:00:00 UTC."""
APART_MS: Final = 48 * 3_600_000
"""Further than any rule looks back."""
START_TIMEOUT_S: Final = 60
Rule = dict[str, Any]

_SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? (\S+)$")


def begins_ms(scenario: str) -> int:
    """When the time line of a scenario begins."""
    return FIRST_MS + list(SCENARIOS).index(scenario) * APART_MS


def ends_s(scenario: str) -> float:
    """A second after its last scrape: "now" of the dashboards."""
    return (begins_ms(scenario) + LASTS_MS - 28_000) / 1000


class Prometheus:
    """A server over finished blocks, on loopback."""

    def __init__(self, folder: Path) -> None:
        (folder / "prometheus.yml").write_text("{}")
        address = f"127.0.0.1:{free_ports(1)[0]}"
        self.url = f"http://{address}"
        self._log = folder / "prometheus.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    program("prometheus"),
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    "--storage.tsdb.retention.time=100y",
                    f"--web.listen-address={address}",
                    "--web.cors.origin=http://127.0.0.1.*",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=end_with_parent(),  # noqa: PLW1509 - one bound call, see end_with_parent
            )

    def wait(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
                    return
            except OSError:
                assert self._process.poll() is None, self._log.read_text()
                assert time.monotonic() < deadline, self._log.read_text()
                time.sleep(0.05)

    def end(self) -> None:
        """By its own process, and no other."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def instant(self, expression: str, at_s: float) -> list[dict[str, Any]]:
        """The vector that an expression gives at one instant."""
        return self._ask("query", {"query": expression, "time": f"{at_s:.3f}"})

    def range(self, expression: str, from_s: float, to_s: float, step_s: int) -> list[dict[str, Any]]:
        """The series that an expression gives over time."""
        times = {"start": f"{from_s:.3f}", "end": f"{to_s:.3f}", "step": str(step_s)}
        return self._ask("query_range", {"query": expression, **times})

    def _ask(self, what: str, parameters: Mapping[str, str]) -> list[dict[str, Any]]:
        body = urllib.parse.urlencode(parameters).encode()
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{what}", body, timeout=30) as answer:
                result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.read().decode()}: {parameters['query']}") from error
        return result


@contextmanager
def recorded(names: Sequence[str] = tuple(SCENARIOS)) -> Iterator[Prometheus]:
    """The server with these scenarios."""
    with tempfile.TemporaryDirectory(prefix="recorded-") as temporary:
        folder = Path(temporary)
        (folder / "data").mkdir()
        _each(names, partial(_scrapes_into, folder))
        for number, layer in enumerate(layers(rules())):
            _rules_into(folder, names, number, layer)
        with _served(folder) as prometheus:
            yield prometheus


@contextmanager
def _served(folder: Path) -> Iterator[Prometheus]:
    prometheus = Prometheus(folder)
    try:
        prometheus.wait()
        yield prometheus
    finally:
        prometheus.end()


def _scrapes_into(folder: Path, name: str) -> None:
    path = folder / f"{name}.openmetrics"
    samples = "".join(
        line for target in SCENARIOS[name] for scrape in played(target, begins_ms(name)) for line in lines_of(scrape)
    )
    path.write_text(f"{samples}# EOF\n")
    _promtool("tsdb", "create-blocks-from", "openmetrics", str(path), str(folder / "data"))


def lines_of(scrape: Scrape) -> Iterator[str]:
    """The samples that a Prometheus would have kept of a scrape: labels of the target, the instant, and `up`."""
    target = [f'{name}="{value}"' for name, value in scrape.target.labels.items()]
    seconds = f"{scrape.at_ms / 1000:.3f}"
    yield f"up{{{','.join(target)}}} {int(scrape.text is not None)} {seconds}\n"
    for line in (scrape.text or "").splitlines():
        if not line.startswith("#"):
            found = _SAMPLE.match(line)
            assert found is not None, line
            name, labels, value = found.groups()
            yield f"{name}{{{','.join(filter(None, [labels, *target]))}}} {value} {seconds}\n"


def rules() -> list[Rule]:
    """Every rule as one that records; an alert records ALERTS."""
    found = []
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                fires = {"alertname": rule.get("alert"), "alertstate": "firing"} if "alert" in rule else {}
                labels = {**rule.get("labels", {}), **fires}
                found.append({"record": rule.get("record", "ALERTS"), "expr": rule["expr"], "labels": labels})
    return found


def layers(all_rules: Sequence[Rule]) -> list[list[Rule]]:
    """Rules in the order in which they can be applied: those of a layer read records of the layers before it only."""
    left, ordered = list(all_rules), []
    while left:
        pending = {rule["record"] for rule in left}
        # What a rule has recorded before is not there: a signal that is held after its last sample is not held here.
        ready = [rule for rule in left if not any(n in rule["expr"] for n in pending - {"ALERTS", rule["record"]})]
        assert ready, f"rules that wait for each other: {pending}"
        ordered.append(ready)
        left = [rule for rule in left if rule not in ready]
    return ordered


def _rules_into(folder: Path, names: Sequence[str], number: int, layer: Sequence[Rule]) -> None:
    path = folder / f"rules-{number}.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "interval": "30s", "rules": layer}]}))
    made = folder / f"rules-{number}"
    with _served(folder) as prometheus:

        def apply(name: str) -> None:
            _promtool(
                *("tsdb", "create-blocks-from", "rules", f"--url={prometheus.url}", f"--output-dir={made}"),
                *(f"--start={begins_ms(name) // 1000}", f"--end={ends_s(name):.0f}", str(path)),
            )

        _each(names, apply)
    for block in made.iterdir():
        block.rename(folder / "data" / block.name)


def _each(names: Sequence[str], work: Callable[[str], None]) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, names))


def _promtool(*arguments: str) -> None:
    run = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, f"promtool {' '.join(arguments)}: {run.stdout}{run.stderr}"


def program(name: str) -> str:
    """The path of a program of Debian's package prometheus."""
    found = shutil.which(name)
    assert found is not None, f"{name} is missing: on Debian install the package prometheus."
    return found
