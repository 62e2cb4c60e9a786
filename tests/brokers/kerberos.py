"""A Kerberos realm on the loopback: MIT's KDC in a temporary folder, on a port of its own, ended by its pid."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final

from hangbench.kafka.ports import free_ports

REALM: Final = "TEST.EXAMPLE"
PATIENCE_S: Final = 20
PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"


def missing_programs() -> tuple[str, ...]:
    """Those of PROGRAMS that this machine lacks."""
    return tuple(name for name in PROGRAMS if shutil.which(name, path=_PATH) is None)


class Realm:
    """`with Realm() as realm:` runs its KDC; `realm.environment` makes a process belong to it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kerberos-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        (self.port,) = free_ports(1)
        self.configuration = self.folder / "krb5.conf"
        self.environment = {
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.folder / 'tickets'}",
            "PATH": _PATH,
        }

    def __enter__(self) -> Realm:
        self.configuration.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n rdns = false\n"
            " dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n"
        )
        (self.folder / "kdc.conf").write_text(
            f'[kdcdefaults]\n kdc_ports = ""\n kdc_listen = ""\n kdc_tcp_listen = 127.0.0.1:{self.port}\n'
            f"[realms]\n {REALM} = {{\n  database_name = {self.folder}/principal\n  key_stash_file = {self.folder}/stash\n"
            f"  acl_file = {self.folder}/acl\n  max_life = 1h\n }}\n"
        )
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "m4ster")
        log = (self.folder / "kdc.log").open("wb")
        self._kdc = subprocess.Popen(["krb5kdc", "-n"], env=self.environment, stdout=log, stderr=log)
        log.close()
        self._wait()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._kdc.kill()
        self._kdc.wait()
        self._folder.cleanup()

    def keytab(self, principal: str) -> Path:
        """A new principal with a random key, and the file that holds it."""
        path = self.folder / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {path} -norandkey {principal}")
        return path

    def log_in(self, principal: str, keytab: Path) -> None:
        """A ticket into the cache that `environment` names."""
        self._run("kinit", "-k", "-t", str(keytab), principal)

    def _run(self, *command: str) -> None:
        run = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert run.returncode == 0, f"{command}: {run.stdout}{run.stderr}"

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                said = (self.folder / "kdc.log").read_text()
                assert self._kdc.poll() is None and time.monotonic() < deadline, said  # noqa: PT018
                time.sleep(0.05)
            else:
                return
