"""Threads share their heaps, according to the C library, in a separate process."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from exporter.daemon.malloc import HEAPS_MAX

THREADS = 8
PROGRAM = f"""
import ctypes, sys, threading
if sys.argv[1] == "shared":
    from exporter.daemon.malloc import limit_arenas
    limit_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.fdopen.restype = ctypes.c_void_p
all_here = threading.Barrier({THREADS})
def work():
    all_here.wait()
    libc.malloc(1000)
    all_here.wait()
threads = [threading.Thread(target=work) for _ in range({THREADS})]
for it in threads: it.start()
for it in threads: it.join()
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
"""


def heaps(kind: str) -> int:
    run = subprocess.run([sys.executable, "-c", PROGRAM, kind], capture_output=True, text=True, check=True, timeout=60)
    return run.stdout.count("<heap nr=")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps a heap for each thread")
def test_threads_share_two_heaps() -> None:
    """Eight threads that allocate at once have more without it."""
    assert heaps("shared") <= HEAPS_MAX < heaps("as ever")
