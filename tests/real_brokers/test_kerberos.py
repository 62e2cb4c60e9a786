"""GSSAPI: a real KDC, a real broker with a keytab, and a ticket in this process' cache."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hangbench.kafka.broker import HOST, Broker
from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.kafka.planting import HANGS_CAN_BE_PLANTED, plant_hang
from hangbench.kafka.ports import free_ports
from tests.brokers.kerberos import REALM, Realm, missing_programs
from tests.marks import starts
from tests.real_brokers.exporting import ended

pytestmark = [pytest.mark.slow, pytest.mark.broker]
TOPIC = "guarded"


class KerberosCluster(KafkaCluster):
    """One node with a listener that takes tickets, under the name localhost: a principal names a host."""

    def __init__(self, version: str, realm: Realm, *, properties: Properties | None = None) -> None:
        self._realm = realm
        self._keytab = realm.keytab("kafka/localhost")
        super().__init__(version, properties=properties)
        (self._door,) = free_ports(1)

    @property
    def door(self) -> str:
        return f"localhost:{self._door}"

    def _java(self, *options: str) -> list[str]:
        return super()._java(f"-Djava.security.krb5.conf={self._realm.configuration}", *options)

    def _defaults(self, broker: Broker) -> Properties:
        defaults = dict(super()._defaults(broker))
        module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
        return {
            **defaults,
            "listeners": f"{defaults['listeners']},TICKETS://{HOST}:{self._door}",
            "advertised.listeners": f"{defaults['advertised.listeners']},TICKETS://localhost:{self._door}",
            "listener.security.protocol.map": f"{defaults['listener.security.protocol.map']},TICKETS:SASL_PLAINTEXT",
            "listener.name.tickets.sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.tickets.sasl.kerberos.service.name": "kafka",
            "listener.name.tickets.gssapi.sasl.jaas.config": (
                f'{module} keyTab="{self._keytab}" principal="kafka/localhost@{REALM}";'
            ),
        }


@pytest.fixture(scope="module")
@starts("programs")
def realm() -> Iterator[Realm]:
    missing = missing_programs()
    if missing:
        pytest.skip(f"{', '.join(missing)} are missing: `make kerberos` installs them")
    if importlib.util.find_spec("gssapi") is None:
        pytest.skip("the Python package gssapi is missing: `make kerberos` installs it")
    with Realm() as made:
        yield made


@pytest.fixture(scope="module")
@starts("broker")
def cluster(realm: Realm) -> Iterator[KerberosCluster]:
    made = KerberosCluster("4.3.1", realm, properties=HANGS_CAN_BE_PLANTED)
    with made:
        made.topics.create(TOPIC)
        plant_hang(made.bootstrap, TOPIC, 0, "hang")
        yield made


def found(cluster: KerberosCluster, realm: Realm, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    config = folder / "config.yaml"
    config.write_text(
        f"kafka: {{bootstrap.servers: '{cluster.door}', security.protocol: SASL_PLAINTEXT, sasl.mechanism: GSSAPI"
        f"{''.join(f', {option}' for option in more)}}}\n"
    )
    return ended(folder, "find-hanging", f"--config.file={config}", "--format=json", "--exit-code", **realm.environment)


def test_a_ticket_is_enough(cluster: KerberosCluster, realm: Realm, tmp_path: Path) -> None:
    """From a keytab by kinit, as a sidecar would; the service's name is kafka unless it is said otherwise."""
    realm.log_in("watcher", realm.keytab("watcher"))

    run = found(cluster, realm, tmp_path)

    assert run.returncode == 3, run.stderr
    assert [row["topic"] for row in json.loads(run.stdout)["transactions"]] == [TOPIC]


@pytest.mark.parametrize("case", ["no ticket", "another service"])
def test_what_kerberos_refuses_is_one_sentence(
    cluster: KerberosCluster, realm: Realm, tmp_path: Path, case: str
) -> None:
    """Without a ticket, or with a service that the realm does not know: a failed login, with Kerberos' reason."""
    tickets = Path(realm.environment["KRB5CCNAME"].removeprefix("FILE:"))
    tickets.unlink(missing_ok=True)
    if case == "another service":
        realm.log_in("watcher2", realm.keytab("watcher2"))

    run = found(
        cluster, realm, tmp_path, *(["sasl.kerberos.service.name: nobody"] if case == "another service" else [])
    )

    print(run.stderr)
    assert run.returncode == 1
    assert "(authentication_failed): Kerberos: " in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1
    assert "Traceback" not in run.stderr
