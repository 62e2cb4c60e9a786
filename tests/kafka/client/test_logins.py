"""A refused login is not sent again and again: pauses grow, for the cycles and for the reader of the transaction log."""

from __future__ import annotations

import base64
import time
from dataclasses import replace

import pytest
from kafka.net.sasl import get_sasl_mechanism

from exporter.config.loading import load
from exporter.config.settings import Settings
from exporter.daemon import log_follower
from exporter.daemon.log_follower import LogFollower
from exporter.kafka.client.credentials import client_options
from exporter.kafka.client.logins import PAUSE_SECONDS_MAX, Logins, logins_of
from exporter.kafka.client.scram import ITERATIONS_MIN
from exporter.kafka.errors import FaultReason
from exporter.kafka.state_log import LogUnreadableError, StateLog
from exporter.transaction_log.report import LogPosition
from hangbench.waiting import until
from tests.hand_clock import HandClock
from tests.kafka.loopback import HOST
from tests.kafka.talking import RefusingLogins, broker, client, fault_of


def settings_for(port: int, word: str = "wrong") -> Settings:
    flags = {
        "kafka.bootstrap.servers": f"{HOST}:{port}",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "u",
        "kafka.request.timeout.ms": "3000",
    }
    return load(file=None, environment={"KAFKA_TRANSACTION_EXPORTER__KAFKA__SASL_PASSWORD": word}, flags=flags).settings


def test_pauses_double_up_to_five_minutes() -> None:
    """A day of a wrong password is some 300 logins of one listener; a login that is accepted ends the pauses."""
    clock = HandClock(100.0)
    logins = Logins(clock)
    sent = 0
    for _ in range(86_400):
        if logins.pause_at("a") is None:
            logins.refused("a", "no")
            sent += 1
        clock.now += 1
    assert 86_400 / PAUSE_SECONDS_MAX <= sent <= 86_400 / PAUSE_SECONDS_MAX + 10
    assert logins.pause_at("b") is None
    logins.accepted("a")
    assert logins.pause_at("a") is None


def test_the_state_is_of_the_credentials() -> None:
    """The same ones share it, wherever they are used; a new password is tried at once."""
    one, other = settings_for(1).kafka, settings_for(1, "right").kafka
    assert logins_of(one) is logins_of(replace(one))
    assert logins_of(one) is not logins_of(other)


def test_connections_send_one_login_in_a_pause() -> None:
    """Each request says why there is no response, and all but the first do without a login."""
    refusing = RefusingLogins()
    login = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "p"}
    with broker(refusing) as listener, client(security_protocol="SASL_PLAINTEXT", **login) as connections:
        connections._logins = Logins(HandClock(100.0))
        faults = [fault_of(connections, listener) for _ in range(20)]
    assert {fault.reason for fault in faults} == {FaultReason.AUTHENTICATION_FAILED}
    assert len({str(fault) for fault in faults}) == 1
    assert refusing.logins == 1


def test_the_reader_of_the_log_sends_few_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread opens the log again at once."""
    monkeypatch.setattr(log_follower, "OPEN_AGAIN_SECONDS", 0.05)
    refusing = RefusingLogins()
    with broker(refusing) as listener:
        settings = settings_for(listener.port)
        follower = LogFollower(settings.kafka, settings.transaction_log, counted_before=LogPosition())
        began = time.monotonic()
        follower.start()
        until(lambda: refusing.logins >= 1 and "uthentication" in str(follower.report().failure), patience_s=20)
        time.sleep(3)
        follower.close()
        seconds = time.monotonic() - began
    print(f"{refusing.logins} logins in {seconds:.1f} s")
    assert refusing.logins <= 2 + seconds / 2  # pauses of 1, 2, 4 s


def test_the_command_gives_up_after_a_refused_login() -> None:
    """`timeouts` opens the log once, and a second time within the pause sends no login."""
    refusing = RefusingLogins()
    with broker(refusing) as listener:
        settings = settings_for(listener.port, "other")
        for _ in range(2):
            with pytest.raises(LogUnreadableError, match="uthentication"):
                StateLog(settings.kafka, since_ms=0, positions={})
    assert 1 <= refusing.logins <= 2


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("iterations", [-5, 0, 1, ITERATIONS_MIN - 1, ITERATIONS_MIN])
def test_scram_refuses_few_iterations(mechanism: str, iterations: int) -> None:
    """No proof is made that a broker's place could guess passwords with."""
    flags = {
        "kafka.bootstrap.servers": "a:1",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.username": "u",
    }
    kafka = load(
        file=None, environment={"KAFKA_TRANSACTION_EXPORTER__KAFKA__SASL_PASSWORD": "p"}, flags=flags
    ).settings.kafka
    options = client_options(kafka)
    login = get_sasl_mechanism(mechanism)(host="a", **options)
    nonce = login.auth_bytes().rpartition(b"r=")[2]
    first = b"r=" + nonce + b"x,s=" + base64.b64encode(b"salt") + b",i=%d" % iterations
    if iterations >= ITERATIONS_MIN:
        login.receive(first)
        assert b",p=" in login.auth_bytes()
        return
    with pytest.raises(ValueError, match="fewer than 4096: no proof is sent"):
        login.receive(first)
    assert login._scram_client.client_proof is None


def test_credentials_are_sent_to_allowed_hosts_only() -> None:
    """A broker's metadata may name any host; the patterns match whole names, and without them every host is allowed."""
    patterns = '["broker-[0-9]+[.]example", "127[.]0[.]0[.]2"]'
    flags = {"kafka.bootstrap.servers": "a:1", "kafka.allowed.hosts": patterns}
    kafka = load(file=None, environment={}, flags=flags).settings.kafka
    logins = logins_of(kafka)
    hosts = ["broker-12.example", "broker-12.example.evil", "xbroker-1.example", HOST]
    assert [logins.allows(host) for host in hosts] == [True, False, False, False]
    assert Logins().allows("anywhere")
    refusing = RefusingLogins()
    login = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "p"}
    with broker(refusing) as listener, client(security_protocol="SASL_PLAINTEXT", **login) as connections:
        connections._logins = logins
        assert "kafka.allowed.hosts does not match its host name" in str(fault_of(connections, listener))
    assert (refusing.logins, listener.accepted) == (0, 0)
    with pytest.raises(LogUnreadableError, match=r"kafka\.allowed\.hosts"):
        StateLog(kafka, since_ms=0, positions={})
