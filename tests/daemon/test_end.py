"""SIGTERM ends `serve` within a second at any instant, whatever hangs: endpoints that drip, names, reloads that queue."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.http.endpoints import ENDLESS
from tests.kafka.fake_broker import FETCH, FakeCluster, Fault
from tests.kafka.loopback import HOST, Listener, wait_for_end
from tests.kafka.scene import scene
from tests.real_brokers.exporting import Exporter, serving

PROMISED_S = 1.0
LOADED_S = 2.0
"""Added on a machine with other load, where the kernel may not run the process at once."""
RESOLVER = """\
import socket, threading
known = socket.getaddrinfo
def hangs(host, *others, **options):
    if host == "name.example":
        threading.Event().wait()
    return known(host, *others, **options)
socket.getaddrinfo = hangs
"""


@contextmanager
def _token_endpoint_drips(folder: Path) -> Iterator[Exporter]:
    with Listener(ENDLESS["a body that drips"]) as endpoint, Listener(wait_for_end) as broker:
        secret = folder / "secret"
        secret.write_text("s")
        with serving(
            f"{HOST}:{broker.port}",
            folder,
            config_file=_file(folder, f"http://{HOST}:{endpoint.port}/token", broker.port),
        ) as exporter:
            yield exporter


def _file(folder: Path, url: str, port: int) -> Path:
    """Settings with a token endpoint."""
    path = folder / "settings.yaml"
    path.write_text(
        f"kafka:\n  bootstrap.servers: '{HOST}:{port}'\n  security.protocol: SASL_PLAINTEXT\n"
        "  sasl.mechanism: OAUTHBEARER\n  sasl.oauthbearer.client.id: me\n  sasl.oauthbearer.client.secret: s\n"
        f"  sasl.oauthbearer.token.endpoint.url: {url}\n"
    )
    return path


@contextmanager
def _names_hang(folder: Path) -> Iterator[Exporter]:
    modules = folder / "modules"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(RESOLVER)
    with serving(
        "name.example:9092", folder, start=subprocess.Popen, environment={"PYTHONPATH": str(modules)}
    ) as exporter:
        yield exporter


@contextmanager
def _reloads_queue(folder: Path) -> Iterator[Exporter]:
    with (
        Listener(wait_for_end) as broker,
        serving(f"{HOST}:{broker.port}", folder, publish__reload_endpoint="true") as exporter,
    ):
        ended = threading.Event()

        def order() -> None:
            while not ended.is_set():
                with suppress(OSError, urllib.error.URLError):
                    urllib.request.urlopen(urllib.request.Request(exporter.url + "/-/reload", method="POST"), timeout=5)

        threads = [threading.Thread(target=order, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(200):
            os.kill(exporter.process.pid, signal.SIGHUP)
        yield exporter
        ended.set()
        for thread in threads:
            thread.join(10)


@contextmanager
def _log_is_silent(folder: Path) -> Iterator[Exporter]:
    """Brokers respond to all but Fetch."""
    with FakeCluster(scene(), nodes=2) as cluster:
        for node in cluster.offered:
            cluster.offered[node] |= FETCH
        cluster.on_request = lambda received: Fault.SILENT if received.api == "Fetch" else None
        with serving(f"{HOST}:{cluster.ports[1]}", folder, transaction_log__enabled="true") as exporter:
            yield exporter


@contextmanager
def _brokers_drip(folder: Path) -> Iterator[Exporter]:
    """Each response comes byte by byte."""
    with FakeCluster(scene(), nodes=2) as cluster:
        cluster.on_request = lambda _: Fault.TRICKLED
        with serving(f"{HOST}:{cluster.ports[1]}", folder) as exporter:
            yield exporter


WAYS: dict[str, Callable[[Path], object]] = {
    "a token endpoint drips": _token_endpoint_drips,
    "names hang": _names_hang,
    "reloads queue": _reloads_queue,
    "the log is silent": _log_is_silent,
    "brokers drip": _brokers_drip,
}
SOON = (0.0, 0.4)
INSTANTS = tuple(number * 0.11 for number in range(20))


def _ends(way: str, folder: Path, after_s: float) -> None:
    with WAYS[way](folder) as exporter:  # type: ignore[attr-defined]
        time.sleep(after_s)
        began = time.monotonic()
        exporter.process.send_signal(signal.SIGTERM)
        status = exporter.process.wait(30)
        seconds = time.monotonic() - began
        print(f"{way}, SIGTERM after {after_s:.2f} s: ended in {seconds:.2f} s")
        assert status == 0, exporter.log
        assert seconds < PROMISED_S + LOADED_S
        assert "Traceback" not in exporter.log


@pytest.mark.parametrize("after_s", SOON)
@pytest.mark.parametrize("way", WAYS)
def test_the_order_to_stop_ends_the_process(way: str, after_s: float, tmp_path: Path) -> None:
    """With status 0, whatever hangs."""
    _ends(way, tmp_path, after_s)


@pytest.mark.slow
@pytest.mark.parametrize("after_s", INSTANTS)
@pytest.mark.parametrize("way", WAYS)
def test_the_order_to_stop_ends_the_process_at_any_instant(way: str, after_s: float, tmp_path: Path) -> None:
    """The same at many instants of a cycle."""
    _ends(way, tmp_path, after_s)


def test_a_thread_that_the_interpreter_waits_for_does_not_delay_the_end() -> None:
    """A thread that the interpreter would wait for: the process ends without it, and says so."""
    program = (
        "import logging, threading\n"
        "from exporter.daemon.ending import end_after\n"
        "logging.basicConfig()\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "end_after(0.1)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (run.returncode, "ended without waiting" in run.stderr) == (0, True)


@pytest.mark.parametrize(("number", "order"), [("SIGTERM", "STOP"), ("SIGINT", "STOP"), ("SIGHUP", "RELOAD")])
def test_a_signal_that_does_not_wake_the_main_thread_is_an_order(number: str, order: str) -> None:
    """Another thread receives it here, as if it came just before the main thread waits."""
    program = (
        "import signal, threading\n"
        "from exporter.commands.serve import follow_signals\n"
        "from exporter.daemon.scheduler import Orders\n"
        "orders = Orders()\n"
        "follow_signals(orders)\n"
        f"threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.{number})).start()\n"
        "print(orders.get(timeout=20).name)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout, run.stderr) == (f"{order}\n", "")
