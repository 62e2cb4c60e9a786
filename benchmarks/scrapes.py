"""Scrapes of 100,000 series from a real `serve` while its cycles run, one scraper and then 200 at once.

The cluster is one that replays. A scrape takes what Prometheus takes: gzip, over a connection that is kept.
"""

from __future__ import annotations

import gzip
import http.client
import re
import statistics
import threading
import time
from typing import Any, Final

from benchmarks.contestants import peak_mb
from benchmarks.replaying import replaying
from benchmarks.serving import serving

SCRAPES: Final = 1_000
AT_ONCE: Final = 200
PAUSE_S: Final = 0.01
"""Between two scrapes, so that they meet many cycles."""
INTERVAL_MS: Final = 1_000
HEADERS: Final = {"Accept-Encoding": "gzip", "Accept": "text/plain;version=0.0.4"}


def measure() -> dict[str, Any]:
    """Latencies, and how long cycles took meanwhile."""
    with replaying(999, 100) as address, serving(address, interval_ms=INTERVAL_MS) as exporter:
        exporter.wait_for_cycles(3)
        alone = exporter.cycle_seconds(for_s=8)
        began = exporter.cycles()
        connection = http.client.HTTPConnection("127.0.0.1", exporter.port)
        _, body = _scrape(connection)
        series = len(re.findall(rb"(?m)^[a-z]", gzip.decompress(body)))
        latencies = []
        for _ in range(SCRAPES):
            latencies.append(_scrape(connection)[0])
            time.sleep(PAUSE_S)
        latencies.sort()
        cycles_meanwhile = exporter.cycles() - began
        connection.close()
        stop = threading.Event()
        threads = [threading.Thread(target=_scrape_on, args=(exporter.port, stop)) for _ in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        try:
            crowded = exporter.cycle_seconds(for_s=8)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        return {
            "scrapes": SCRAPES,
            "series": series,
            "gzip_bytes": len(body),
            "cycles_meanwhile": cycles_meanwhile,
            "p50_ms": 1000 * statistics.median(latencies),
            "p99_ms": 1000 * latencies[int(0.99 * SCRAPES)],
            "max_ms": 1000 * latencies[-1],
            "scrapers_at_once": AT_ONCE,
            "cycle_ms": 1000 * statistics.median(alone),
            "cycle_ms_crowded": 1000 * statistics.median(crowded),
            "missed_cycles": exporter.missed_cycles(),
            "peak_mb": peak_mb(exporter.pid),
        }


def _scrape(connection: http.client.HTTPConnection) -> tuple[float, bytes]:
    """Seconds from the request to the last byte, and the body as it came."""
    began = time.perf_counter()
    connection.request("GET", "/metrics", headers=HEADERS)
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, answer.status
    return time.perf_counter() - began, body


def _scrape_on(port: int, stop: threading.Event) -> None:
    """Again and again, over a new connection whenever the old one was ended: more peers than the server keeps."""
    while not stop.is_set():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            while not stop.is_set():
                _scrape(connection)
                stop.wait(1)
        except (OSError, http.client.HTTPException):
            stop.wait(0.2)
        finally:
            connection.close()
