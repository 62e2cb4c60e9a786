"""The canary of `tests/test_canary.py` with brokers that do the whole handshake, so that it is sent.

Every way in, every mechanism, right and wrong, and everything that comes out.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.brokers.secure import PASSWORD, USER, SecureCluster
from tests.brokers.token_endpoint import CLIENT_ID, CLIENT_SECRET, TokenEndpoint
from tests.real_brokers.exporting import called, ended, serving

CANARY = "c4nary"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
OAUTH_SECRET = "sasl.oauthbearer.client.secret"
Settings = dict[str, str]
Given = tuple[Settings, dict[str, str], Settings]
"""Settings of a file, environment, flags."""


def escaped(secret: str) -> str:
    return secret.replace("${", "$${")


def in_file(_: Path, name: str, secret: str) -> Given:
    return {f"kafka.{name}": escaped(secret)}, {}, {}


def in_environment(_: Path, name: str, secret: str) -> Given:
    return {}, {f"KAFKA_TRANSACTION_EXPORTER__KAFKA__{name.replace('.', '_').upper()}": escaped(secret)}, {}


def by_file(folder: Path, name: str, secret: str) -> Given:
    (folder / "secret").write_text(secret + "\n")
    return {f"kafka.{name}": f"${{file:{folder / 'secret'}}}"}, {}, {}


def by_variable(_: Path, name: str, secret: str) -> Given:
    return {f"kafka.{name}": "${env:MINE}"}, {"MINE": secret}, {}


def in_companion(folder: Path, name: str, secret: str) -> Given:
    (folder / "secret").write_text(secret + "\n")
    return {}, {}, {f"kafka.{name}_file": str(folder / "secret")}


def in_java(folder: Path, name: str, secret: str) -> Given:
    module = {"PLAIN": "plain.Plain", "SCRAM-SHA-256": "scram.Scram", "SCRAM-SHA-512": "scram.Scram"}
    mechanism = (folder / "mechanism").read_text()
    options = (
        {"username": USER, "password": secret}
        if name == "sasl.password"
        else {"clientId": CLIENT_ID, "clientSecret": secret}
    )
    login = module.get(mechanism, "oauthbearer.OAuthBearer")
    jaas = " ".join(f'{key}="{escaped(value)}"' for key, value in options.items())
    line = f"sasl.jaas.config=org.apache.kafka.common.security.{login}LoginModule required {jaas};\n"
    (folder / "client.properties").write_text(line)
    return {}, {}, {"command_config": str(folder / "client.properties")}


ROUTES: dict[str, Callable[[Path, str, str], Given]] = {
    "file": in_file,
    "environment": in_environment,
    "${file:}": by_file,
    "${env:}": by_variable,
    "*_file": in_companion,
    "JAAS": in_java,
}
COMMANDS = [
    pytest.param(mechanism, route, right, marks=[] if quick else pytest.mark.slow, id=f"{mechanism}-{route}-{right}")
    for mechanism in MECHANISMS
    for route in ROUTES
    for right in (True, False)
    for quick in [
        (mechanism == "PLAIN") is right
        and (right or (mechanism, route) in {("OAUTHBEARER", "*_file"), ("SCRAM-SHA-512", "file")})
    ]
]
DAEMONS = [
    pytest.param(mechanism, right, marks=[] if quick else pytest.mark.slow, id=f"{mechanism}-{right}")
    for mechanism in MECHANISMS
    for right in (True, False)
    for quick in [mechanism == "PLAIN" or (mechanism == "OAUTHBEARER" and right)]
]


class Case:
    """One mechanism with its secret, by one route, in one folder."""

    def __init__(
        self, cluster: SecureCluster, endpoint: TokenEndpoint, folder: Path, mechanism: str, route: str, *, right: bool
    ) -> None:
        self.folder, self.endpoint, self.route = folder, endpoint, route
        is_oauth = mechanism == "OAUTHBEARER"
        name, secret = (OAUTH_SECRET, CLIENT_SECRET) if is_oauth else ("sasl.password", PASSWORD)
        self.secret = secret if right else f"{secret}-wrong"
        (folder / "mechanism").write_text(mechanism)
        settings, self.environment, self.flags = ROUTES[route](folder, name, self.secret)
        self.user = CLIENT_ID if is_oauth else USER
        plain = {
            "kafka.bootstrap.servers": cluster.door("LOGIN"),
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": mechanism,
            "log.level": "debug",
            "transaction_log.enabled": "true",
            "history.directory": str(folder / "history"),
            "history.rotate_interval": "1s",
        }
        if is_oauth:
            plain["kafka.sasl.oauthbearer.token.endpoint.url"] = endpoint.url
        if route != "JAAS":
            plain["kafka.sasl.oauthbearer.client.id" if is_oauth else "kafka.sasl.username"] = self.user
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in {**plain, **settings}.items()]
        self.config = folder / "config.yaml"
        self.config.write_text("".join(lines))

    def run(self, *arguments: str) -> tuple[int, str]:
        """Exit status and everything that one command says.

        Those with a secret from the file are processes, of which nothing escapes; the others differ in the settings alone.
        """
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in self.flags.items()]
        run = ended if self.route == "file" else called
        made = run(self.folder, *arguments, f"--config.file={self.config}", *flags, **self.environment)
        return made.returncode, made.stdout + made.stderr

    def spilt(self, seen: Mapping[str, str]) -> dict[str, str]:
        """Where of `seen` the secret is, in any form in which it travels."""
        pair = base64.b64encode(f"{self.user}:{self.secret}".encode()).decode()
        plain = base64.b64encode(b"\0" + f"{self.user}\0{self.secret}".encode()).decode()
        forms = [CANARY, pair, plain, *self.endpoint.tokens]
        return {place: text for place, text in seen.items() if any(form in text for form in forms)}


@pytest.mark.parametrize(("mechanism", "route", "right"), COMMANDS)
def test_no_command_shows_the_secret(
    cluster: SecureCluster, tokens: TokenEndpoint, tmp_path: Path, mechanism: str, route: str, *, right: bool
) -> None:
    """At debug, with the right one and with a wrong one; the right one is let in, so it is what was sent."""
    case = Case(cluster, tokens, tmp_path, mechanism, route, right=right)

    status, once = case.run("once")
    seen = {"once": once, "check": case.run("config", "check")[1], "dump": case.run("config", "dump")[1]}

    assert (status != 1, "hanging_not_in_transaction" in once) == (right, right), once
    assert "logger=kafka." in once, "at debug the client library speaks as well"
    assert "<secret>" in seen["dump"] or "${" in seen["dump"] or "_file" in seen["dump"], seen["dump"]
    assert case.spilt(seen) == {}


@pytest.mark.parametrize(("mechanism", "right"), DAEMONS)
def test_no_page_log_or_file_shows_the_secret(
    cluster: SecureCluster, tokens: TokenEndpoint, tmp_path: Path, mechanism: str, *, right: bool
) -> None:
    """Of the daemon, at debug, with both clients logged in; and of an abort that is planned, declined and written down."""
    case = Case(cluster, tokens, tmp_path, mechanism, "file", right=right)

    with serving(None, tmp_path, start=subprocess.Popen, config_file=case.config) as exporter:
        counter = "cycles_total" if right else "cycles_failed_total"
        exporter.until(lambda m: m.get(f"kafka_transaction_exporter_{counter}", {}).get((), 0) >= 3)
        seen = {path: exporter.get(path)[1] for path in ("/", "/metrics", "/-/healthy", "/-/ready", "/nothing")}
        for name in ("cmdline", "comm"):
            seen[name] = Path(f"/proc/{exporter.process.pid}/{name}").read_text()
    seen["log"] = exporter.log
    seen["plan"] = case.run("find-hanging", f"--plan-file={tmp_path / 'plan.json'}")[1]
    place = ("--topic=guarded", "--partition=0", "--start-offset=0")
    seen["abort"] = case.run("abort", *place, f"--audit-log={tmp_path / 'audit.jsonl'}")[1]
    for path in [*tmp_path.rglob("*.json*"), *tmp_path.rglob("*.parquet")]:
        seen[path.name] = path.read_text(errors="replace")

    assert {"state.json", "plan.json", "audit.jsonl"} <= set(seen) or not right, seen["abort"]
    assert case.spilt(seen) == {}
