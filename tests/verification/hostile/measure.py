"""Runs `once` in its own process against a hostile cluster, and returns its output and cost."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests import forked
from tests.kafka.loopback import HOST
from tests.verification.hostile.peer import Peer
from tests.verification.hostile.shapes import Shape, Size

ROOT: Final = Path(__file__).parents[3]
PATIENCE_S: Final = 300.0
"""Nothing is measured by it: a process that does not end fails."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One command at its end."""

    status: int
    """Negative: ended by a signal, the limit of CPU time among them."""
    cpu_s: float
    mb: float
    """The largest resident size."""
    requests: int
    out: str
    errors: str

    @property
    def document(self) -> dict[str, Any]:
        """The printed JSON; empty where nothing was printed."""
        return dict(json.loads(self.out)) if self.out.startswith("{") else {}


def once(peer: Peer, *, deadline: str = "20s", output: str = "json", name: str = "once") -> Run:
    """The installed command, `once` or another, against `peer`."""
    servers = ",".join(f"{HOST}:{port}" for port in list(peer.ports.values())[:2])
    with tempfile.TemporaryDirectory() as folder:
        took = Path(folder) / "took.json"
        command = [sys.executable, "-m", "tests.verification.hostile.child", str(took)]
        ended = forked.run(
            [*command, "--bootstrap-server", servers, name, f"--format={output}"],
            timeout_s=PATIENCE_S,
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", "HOME": folder, "KAFKA_TRANSACTION_EXPORTER__SCAN__DEADLINE": deadline},
        )
        used = json.loads(took.read_text()) if took.exists() else {"mb": float("inf"), "cpu_s": float("inf")}
    return Run(
        status=ended.returncode,
        cpu_s=used["cpu_s"],
        mb=used["mb"],
        requests=peer.requests,
        out=ended.stdout.decode(errors="replace"),
        errors=ended.stderr.decode(errors="replace"),
    )


def under(shape: Shape, size: Size) -> Run:
    """`once` under an attack of this size."""
    with Peer(nodes=size.nodes) as peer:
        shape.arrange(peer, size.count)
        return once(peer, deadline=shape.deadline, output=shape.output, name=shape.command)
