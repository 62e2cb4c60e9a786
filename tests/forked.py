"""Starts a process of the exporter in a tenth of the time: as a fork of one that has imported everything.

Most of the half second that `python -m exporter serve` takes is imports, and the tests start more than a hundred. One
process for each worker imports once, and forks when a test asks. The kernel gives the fork to the test's own process as its
child, so waiting, signals and pipes are as with any other. What differs is the command line that others see, and what is
taken from the environment before the program runs: tests of these start a process of their own.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

PR_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h
REQUEST_BYTES: Final = 1 << 17
READ_AT_START: Final = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "TZ")
HARMLESS: Final = frozenset({"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"})
"""Two of them that a fork can take, or do without."""

IS_POSSIBLE: Final = sys.platform == "linux"
FOR_SHELLS: Final = """\
#!{python} -IS
import json, os, socket, sys
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.connect({address!r})
request = {{"command": ["exporter", *sys.argv[1:]], "cwd": os.getcwd(), "env": dict(os.environ)}}
socket.send_fds(door, [json.dumps(request).encode()], [0, 1, 2])
status = int(door.recv(100))
if status < 0:
    os.kill(os.getpid(), -status)
sys.exit(status)
"""
"""A program that has a fork do its work with its own streams, and ends as that ends; one that is killed kills it."""

_one_at_a_time = threading.Lock()


class Process(subprocess.Popen[Any]):
    """For Popen where the command is `python -m MODULE ARGUMENTS`, with streams, `text`, `env` and `cwd` only."""

    def _execute_child(self, args: list[str], *others: Any) -> None:
        """In place of fork and exec; the order of the arguments is that of CPython 3.10 to 3.13."""
        cwd, env = others[4:6]
        pipes = others[9:15]
        env = dict(os.environ if env is None else env)
        if not _can_be_forked(env):
            super()._execute_child(args, *others)  # type: ignore[misc]
            return
        streams = [given if given >= 0 else own for own, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        assert args[:2] == [sys.executable, "-m"], args
        self.pid = _prepared().fork({"command": args[2:], "cwd": str(cwd or Path.cwd()), "env": env}, streams)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def run(command: Sequence[str], *, timeout_s: float, **options: Any) -> subprocess.CompletedProcess[Any]:
    """A fork at its end: as `subprocess.run`, without input, and with both outputs."""
    options |= {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Process(command, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        finally:
            process.kill()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _can_be_forked(env: Mapping[str, str]) -> bool:
    """The linker, the allocator and Python read their variables before a program runs: a fork has no such moment."""
    own = {name for name in env if name.startswith(READ_AT_START)} - HARMLESS
    locales = {env[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if name in env}
    return IS_POSSIBLE and not own and locales <= {"", "C", "POSIX", "C.UTF-8", "en_US.UTF-8"}


def install(path: Path) -> None:
    """Make `path` a program that shells start as they start the exporter."""
    path.write_text(FOR_SHELLS.format(python=sys.executable, address=_prepared().address))
    path.chmod(0o755)


class _Prepared:
    """The process that has imported everything; it ends with this one."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
            door.bind("")  # the kernel chooses a name, without a file
            door.listen()
            self.address = door.getsockname()
            numbers = (theirs.fileno(), door.fileno())
            command = [sys.executable, "-m", "tests.forked", *map(str, numbers)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=numbers, cwd=Path(__file__).parents[1]
            )
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl

    def fork(self, request: Mapping[str, Any], streams: Sequence[int]) -> int:
        """The process id of a child of this process."""
        with _one_at_a_time:
            self._adopt(orphans=True)  # only meanwhile: an orphan of another test belongs to init
            try:
                socket.send_fds(self._socket, [json.dumps(request).encode()], list(streams))
                answer = self._socket.recv(REQUEST_BYTES)
            finally:
                self._adopt(orphans=False)
        assert answer, "the process that forks the exporters has ended"
        return int(answer)

    def _adopt(self, *, orphans: bool) -> None:
        assert self._prctl(PR_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0) == 0, os.strerror(ctypes.get_errno())

    def end(self) -> None:
        self._socket.close()
        self._process.wait()


@functools.cache
def _prepared() -> _Prepared:
    prepared = _Prepared()
    atexit.register(prepared.end)
    return prepared


def _requested(owner: socket.socket, door: socket.socket) -> list[str]:
    """Serves requests until the tests end, and returns in each fork only: with its module and arguments."""
    while True:
        ready, _, _ = select.select([owner, door], [], [])
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        asked = _asked_by_owner(owner) if owner in ready else _asked_by_shell(door.accept()[0])
        if asked is not None:
            owner.close()
            door.close()
            return _become(*asked)


def _asked_by_owner(owner: socket.socket) -> tuple[bytes, list[int]] | None:
    """What the fork is asked to do; None in this process, which has sent the owner the fork's process id."""
    data, streams, _, _ = socket.recv_fds(owner, REQUEST_BYTES, 3)
    if not data:
        os._exit(0)
    reading, writing = os.pipe()
    if (between := os.fork()) == 0:
        if (child := os.fork()) != 0:
            os.write(writing, str(child).encode())
            os._exit(0)  # the child goes to the nearest process that adopts orphans
        os.close(reading)
        os.close(writing)
        return data, streams
    os.waitpid(between, 0)
    owner.send(os.read(reading, 100))
    for number in (reading, writing, *streams):
        os.close(number)
    return None


def _asked_by_shell(client: socket.socket) -> tuple[bytes, list[int]] | None:
    """The same for a program in a shell: a process between waits for the fork, and tells how it has ended."""
    with client:
        if os.fork() != 0:
            return None
        data, streams, _, _ = socket.recv_fds(client, REQUEST_BYTES, 3)
        if (child := os.fork()) == 0:
            return data, streams
        for number in streams:
            os.close(number)
        ready, _, _ = select.select([client.fileno(), os.pidfd_open(child)], [], [])
        if client.fileno() in ready:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        with suppress(OSError):
            client.send(str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)


def _become(data: bytes, streams: Sequence[int]) -> list[str]:
    """Makes this fork what a start would have made it: streams, folder, environment, Ctrl-C."""
    request = json.loads(data)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout = _writing(1, "strict")
    sys.stderr = _writing(2, "backslashreplace")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    command: list[str] = request["command"]
    return command


def _writing(number: int, errors: str) -> Any:
    by_line = number == 2 or os.isatty(number)
    buffering = 1 if by_line or os.environ.get("PYTHONUNBUFFERED") else -1
    return open(number, "w", buffering, "utf-8", errors, closefd=False)


def main() -> NoReturn:
    """The process that has imported everything; in a fork, the requested program."""
    owner, door = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    modules = {f"exporter.commands.{each.module}" for each in importlib.import_module("exporter.cli").COMMANDS.values()}
    for name in sorted(modules):
        importlib.import_module(name)
    gc.freeze()
    sys.argv = _requested(owner, door)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    main()
