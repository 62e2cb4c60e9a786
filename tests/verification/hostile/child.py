"""`python -m tests.verification.hostile.child FILE ARGUMENTS`: runs the exporter with limits, and measures it.

The kernel counts the memory of who forked this process as this process' own, so the largest resident size is read here. No
name leaves the machine: each is looked up for a while, and not found.
"""

from __future__ import annotations

import json
import resource
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

from exporter.cli import main

ADDRESS_SPACE_BYTES: Final = 6_000_000_000
CPU_S: Final = 120
LOOK_UP_S: Final = 0.02

_look_up = socket.getaddrinfo


def _loopback_only(host: Any, *arguments: Any, **more: Any) -> Any:
    if isinstance(host, str) and host.endswith(".invalid"):
        time.sleep(LOOK_UP_S)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return _look_up(host, *arguments, **more)


def _largest_resident_mb() -> float:
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    took = Path(sys.argv.pop(1))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    socket.getaddrinfo = _loopback_only
    try:
        sys.exit(main())
    finally:
        used = resource.getrusage(resource.RUSAGE_SELF)
        took.write_text(json.dumps({"mb": _largest_resident_mb(), "cpu_s": used.ru_utime + used.ru_stime}))
