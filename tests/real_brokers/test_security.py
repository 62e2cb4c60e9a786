"""Every protocol and login mechanism with real brokers, and the messages of failures."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.config.loading import load
from exporter.kafka.state_log import StateLog
from hangbench.waiting import until
from tests.brokers.secure import PASSWORD, USER, Certificates, SecureCluster
from tests.brokers.token_endpoint import CLIENT_ID, CLIENT_SECRET, TokenEndpoint
from tests.certificates import key_store
from tests.real_brokers.conftest import TOPIC
from tests.real_brokers.exporting import Series, called, serving

Settings = dict[str, str]
SUCCESS = "kafka_transaction_exporter_last_cycle_success"
FAILED = "kafka_transaction_exporter_cycles_failed_total"


def tls_by_pem(cluster: SecureCluster) -> Settings:
    return {"security.protocol": "SSL", "ssl.ca.location": str(cluster.certificates.authority.path)}


def login(mechanism: str) -> Settings:
    return {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD.replace("${", "$${")}


def oauth(tokens: TokenEndpoint) -> Settings:
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": tokens.url,
        "sasl.oauthbearer.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.secret": CLIENT_SECRET,
        "sasl.oauthbearer.scope": "kafka.read",
        "sasl.oauthbearer.extensions": "traceId=1,region=eu",
    }


def mutual(cluster: SecureCluster, **files: str) -> Settings:
    return {**tls_by_pem(cluster), **{name.replace("_", "."): path for name, path in files.items()}}


Way = Callable[[SecureCluster, TokenEndpoint], tuple[str, Settings]]

WAYS: dict[str, Way] = {
    "plaintext": lambda c, _: (c.bootstrap, {}),
    "tls": lambda c, _: (c.door("TLS"), tls_by_pem(c)),
    "tls, PKCS12 trust store": lambda c, _: (
        c.door("TLS"),
        {
            "security.protocol": "SSL",
            "ssl.truststore.location": str(c.certificates.authority.trust_store("tru5t")),
            "ssl.truststore.password": "tru5t",
        },
    ),
    "tls to another host name": lambda c, _: (
        c.door("OTHER"),
        {**tls_by_pem(c), "ssl.endpoint.identification.algorithm": "none"},
    ),
    "mutual tls": lambda c, _: (
        c.door("MUTUAL"),
        mutual(
            c,
            ssl_certificate_location=str(c.certificates.client.certificate),
            ssl_key_location=str(c.certificates.client.key),
        ),
    ),
    "mutual tls, locked key": lambda c, _: (
        c.door("MUTUAL"),
        mutual(
            c,
            ssl_certificate_location=str(c.certificates.locked_client.certificate),
            ssl_key_location=str(c.certificates.locked_client.key),
            ssl_key_password=c.certificates.key_password,
        ),
    ),
    "mutual tls, PKCS12 key store": lambda c, _: (
        c.door("MUTUAL"),
        mutual(
            c,
            ssl_keystore_location=str(key_store(c.certificates.client, "st0re")),
            ssl_keystore_password="st0re",
        ),
    ),
    **{
        f"{mechanism} over {protocol}": lambda c, _, m=mechanism, p=protocol, d=door: (  # type: ignore[misc]
            c.door(d),
            {**(tls_by_pem(c) if p == "SASL_SSL" else {}), "security.protocol": p, **login(m)},
        )
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        for protocol, door in (("SASL_PLAINTEXT", "LOGIN"), ("SASL_SSL", "BOTH"))
    },
    "OAUTHBEARER over SASL_PLAINTEXT": lambda c, t: (
        c.door("LOGIN"),
        {"security.protocol": "SASL_PLAINTEXT", **oauth(t)},
    ),
    "OAUTHBEARER over SASL_SSL": lambda c, t: (
        c.door("BOTH"),
        {**tls_by_pem(c), "security.protocol": "SASL_SSL", **oauth(t)},
    ),
}


def written(folder: Path, bootstrap: str, settings: Settings) -> Path:
    """A YAML file; JSON strings are YAML strings."""
    lines = [f"  {name}: {json.dumps(value)}" for name, value in {"bootstrap.servers": bootstrap, **settings}.items()]
    path = folder / "config.yaml"
    path.write_text("\n".join(["kafka:", *lines, ""]))
    return path


def found(config: Path) -> subprocess.CompletedProcess[str]:
    return called(config.parent, "find-hanging", f"--config.file={config}", "--format=json", "--exit-code")


@pytest.mark.parametrize("way", WAYS)
def test_the_hang_is_found_in_every_way_of_coming_in(
    cluster: SecureCluster, tokens: TokenEndpoint, tmp_path: Path, way: str
) -> None:
    """Connections are encrypted and logged in as the settings say, and see what there is to see."""
    bootstrap, settings = WAYS[way](cluster, tokens)

    run = found(written(tmp_path, bootstrap, settings))

    assert run.returncode == 3, run.stderr
    assert [row["topic"] for row in json.loads(run.stdout)["transactions"]] == [TOPIC]


@pytest.mark.parametrize("way", WAYS)
def test_the_transaction_log_is_read_in_the_same_way(cluster: SecureCluster, tokens: TokenEndpoint, way: str) -> None:
    """Its reader has connections of its own."""
    bootstrap, settings = WAYS[way](cluster, tokens)
    flags = {f"kafka.{name}": value for name, value in {"bootstrap.servers": bootstrap, **settings}.items()}
    log = StateLog(load(file=None, environment={}, flags=flags).settings.kafka, since_ms=0, positions={})
    try:
        assert until(lambda: log.read(0.1).records)
    finally:
        log.close()


BAD: dict[str, tuple[Callable[[SecureCluster], tuple[str, Settings]], str]] = {
    "wrong password": (
        lambda c: (
            c.door("LOGIN"),
            {"security.protocol": "SASL_PLAINTEXT", **login("PLAIN"), "sasl.password": "c4nary-wrong"},
        ),
        "(authentication_failed): Authentication failed: Invalid username or password",
    ),
    "wrong password, SCRAM": (
        lambda c: (
            c.door("BOTH"),
            {
                **tls_by_pem(c),
                "security.protocol": "SASL_SSL",
                **login("SCRAM-SHA-256"),
                "sasl.password": "c4nary-wrong",
            },
        ),
        "(authentication_failed): ",
    ),
    "unknown authority": (
        lambda c: (c.door("TLS"), {"security.protocol": "SSL"}),
        "(tls_failed): its certificate is signed by an unknown authority: set ssl.ca.location",
    ),
    "expired certificate": (
        lambda c: (c.door("EXPIRED"), tls_by_pem(c)),
        "(tls_failed): its certificate has expired",
    ),
    "wrong host name": (
        lambda c: (c.door("OTHER"), tls_by_pem(c)),
        "(tls_failed): its certificate is for another host: IP address mismatch",
    ),
    "no client certificate": (
        lambda c: (c.door("MUTUAL"), tls_by_pem(c)),
        "it rejects this client's certificate (",
    ),
    "a stranger's client certificate": (
        lambda c: (
            c.door("MUTUAL"),
            mutual(
                c,
                ssl_certificate_location=str(c.certificates.stranger.certificate),
                ssl_key_location=str(c.certificates.stranger.key),
            ),
        ),
        "it rejects this client's certificate (",
    ),
    "plaintext to a TLS port": (
        lambda c: (c.door("TLS"), {}),
        "(tls_failed): this listener uses TLS: set security.protocol to SSL or SASL_SSL",
    ),
    "TLS to a plaintext port": (
        lambda c: (c.bootstrap, tls_by_pem(c)),
        "as a listener without TLS does: in that case set security.protocol to PLAINTEXT or SASL_PLAINTEXT",
    ),
    "login at a port without": (
        lambda c: (c.bootstrap, {"security.protocol": "SASL_PLAINTEXT", **login("PLAIN")}),
        "(authentication_failed): this listener does not use SASL: set security.protocol to PLAINTEXT or SSL",
    ),
    "no login at a port that requires one": (
        lambda c: (c.door("LOGIN"), {}),
        "in that case set security.protocol to SASL_PLAINTEXT or SASL_SSL",
    ),
    "TLS without a login at a port that requires one": (
        lambda c: (c.door("BOTH"), tls_by_pem(c)),
        "in that case set security.protocol to SASL_PLAINTEXT or SASL_SSL",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_work_is_one_clear_sentence(cluster: SecureCluster, tmp_path: Path, case: str) -> None:
    """Which broker, what is wrong, and where there is something to do, what; no secret and no traceback."""
    make, sentence = BAD[case]
    bootstrap, settings = make(cluster)

    run = found(written(tmp_path, bootstrap, settings))

    print(run.stderr)
    assert run.returncode == 1
    assert sentence in run.stderr
    assert f"broker at {bootstrap} cannot be {'asked' if 'requires' in case else 'connected to'}" in run.stderr
    assert "Traceback" not in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1
    assert "c4nary" not in run.stderr


def doctor(config: Path) -> tuple[int, str]:
    """(exit status, output)"""
    run = called(config.parent, "doctor", f"--config.file={config}", "--state.file=none")
    assert run.stderr == "", run.stderr
    return run.returncode, run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD)
def test_doctor_says_the_same_of_what_does_not_work(cluster: SecureCluster, tmp_path: Path, case: str) -> None:
    """As its finding about the connection; status 1, and no claim that anything could be proved."""
    make, sentence = BAD[case]

    status, output = doctor(written(tmp_path, *make(cluster)))

    assert status == 1
    assert sentence in output
    assert "No hang can be proved: no broker responds." in output
    assert "c4nary" not in output


ADVICE = re.compile(r"set ((?:ssl|sasl|security)\.[a-z.]+)(?: and (ssl\.[a-z.]+))?(?: to ([A-Z_]+)(?: or ([A-Z_]+))?)?")


@pytest.mark.parametrize("door", ["TLS", "MUTUAL", "LOGIN", "BOTH", "plain"])
def test_who_sets_what_doctor_advises_gets_in(cluster: SecureCluster, tmp_path: Path, door: str) -> None:
    """Without any setting but the address, or with TLS and a login at a listener without; one advice after the other."""
    at_hand = {
        "ssl.ca.location": str(cluster.certificates.authority.path),
        "ssl.certificate.location": str(cluster.certificates.client.certificate),
        "ssl.key.location": str(cluster.certificates.client.key),
    }
    settings: Settings = {"security.protocol": "SASL_SSL", **login("PLAIN")} if door == "plain" else {}
    bootstrap = cluster.bootstrap if door == "plain" else cluster.door(door)
    status, output = doctor(written(tmp_path, bootstrap, settings))
    for _ in range(4):
        advice = ADVICE.search(output)
        if status == 0 or advice is None:
            break
        first, second, *protocols = advice.groups()
        if first == "security.protocol":
            settings = with_protocol(settings, [each for each in protocols if each], uses_tls="uses TLS" in output)
        else:
            settings |= {name: at_hand[name] for name in (first, second) if name}
        status, output = doctor(written(tmp_path, bootstrap, settings))

    assert status == 0, (settings, output)
    assert "Hangs can be proved on all" in output


def with_protocol(settings: Settings, advised: list[str], *, uses_tls: bool) -> Settings:
    """The one of two advised protocols that keeps TLS as it is known to be; with a login where it needs one."""
    encrypted = uses_tls or settings.get("security.protocol", "").endswith("SSL")
    chosen = next((protocol for protocol in advised if protocol.endswith("SSL") is encrypted), advised[0])
    others = {name: value for name, value in settings.items() if not name.startswith("sasl")}
    return {**others, "security.protocol": chosen, **(login("PLAIN") if chosen.startswith("SASL") else {})}


UNUSABLE = {
    "ssl.ca.location": "contains no PEM certificate",
    "ssl.certificate.location": "is not the PEM certificate of the key in",
    "ssl.keystore.location": "is not a PKCS12 file, or kafka.ssl.keystore.password is wrong",
    "ssl.truststore.location": "is not a PKCS12 file, or kafka.ssl.truststore.password is wrong",
    "ssl.crl.location": "contains no PEM list of revoked certificates",
}


@pytest.mark.parametrize("name", UNUSABLE)
@pytest.mark.parametrize("content", [None, "rubbish"], ids=["missing", "rubbish"])
def test_files_that_cannot_be_used_are_reported_before_any_request(
    tmp_path: Path, name: str, content: str | None
) -> None:
    """`config check` finds them, with the setting's name."""
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content)
    settings = {"security.protocol": "SSL", name: str(file)}
    if name == "ssl.certificate.location":
        settings["ssl.key.location"] = str(file)
    config = written(tmp_path, "127.0.0.1:1", settings)

    run = called(tmp_path, "config", "check", f"--config.file={config}")

    assert run.returncode == 1
    why = UNUSABLE[name] if content is not None else "cannot be read: No such file or directory"
    assert re.match(
        rf"kafka-transaction-exporter: {re.escape(str(config))}:\d+: kafka\.{re.escape(f'{name}: {file} {why}')}",
        run.stderr,
    ), run.stderr


@pytest.mark.parametrize(
    ("name", "instead"),
    [("truststore", "ca.location"), ("keystore", "certificate.location and kafka.ssl.key.location")],
)
def test_a_pem_file_as_a_store_has_its_own_setting(tmp_path: Path, name: str, instead: str) -> None:
    """It was said to be no PKCS12 file, or that the password is wrong."""
    file = tmp_path / "file.pem"
    file.write_text("\n-----BEGIN CERTIFICATE-----\n")
    config = written(tmp_path, "127.0.0.1:1", {"security.protocol": "SSL", f"ssl.{name}.location": str(file)})

    run = called(tmp_path, "config", "check", f"--config.file={config}")

    assert run.returncode == 1
    of_java = f"(in a Java client's file add ssl.{name}.type=PEM)"
    assert run.stderr.rstrip().endswith(f"{file} is a PEM file: name it in kafka.ssl.{instead} {of_java}")


def test_a_fleet_names_every_file_that_cannot_be_used_with_its_cluster(tmp_path: Path) -> None:
    """All are named at once, each where it is written; a file of all clusters is named once."""
    config, clusters = tmp_path / "config.yaml", tmp_path / "clusters.yaml"
    config.write_text("kafka.security.protocol: SSL\nkafka.ssl.ca.location: /none/common.pem\n")
    clusters.write_text(
        "clusters:\n  a: {kafka.bootstrap.servers: 'a:1'}\n  b: {kafka.bootstrap.servers: 'b:1'}\n"
        "  c: {kafka.bootstrap.servers: 'c:1', kafka.ssl.ca.location: /none/own.pem}\n"
    )

    run = called(tmp_path, "config", "check", f"--config.file={config}", f"--clusters={clusters}")

    missing = "cannot be read: No such file or directory"
    assert run.stderr.splitlines() == [
        f"kafka-transaction-exporter: {config}:2: kafka.ssl.ca.location: /none/common.pem {missing}",
        f"kafka-transaction-exporter: {clusters}:4: kafka.ssl.ca.location: /none/own.pem {missing}",
    ]


def test_a_store_of_java_s_old_kind_gets_the_line_that_converts_it(tmp_path: Path) -> None:
    store = tmp_path / "trust store.jks"
    store.write_bytes(bytes.fromhex("feedfeed00000002") + bytes(20))
    config = written(tmp_path, "127.0.0.1:1", {"security.protocol": "SSL", "ssl.truststore.location": str(store)})

    run = called(tmp_path, "config", "check", f"--config.file={config}")

    assert run.returncode == 1
    assert f"keytool -importkeystore -srckeystore '{store}' -destkeystore '{store.with_suffix('.p12')}'" in run.stderr


def value(metrics: dict[str, Series], name: str) -> float | None:
    return metrics.get(name, {}).get(())


def test_a_rotated_client_certificate_is_used_without_a_restart(
    cluster: SecureCluster, certificates: Certificates, tmp_path: Path
) -> None:
    """A stranger's certificate is refused; the right one in the same files, and cycles succeed."""
    files = {name: tmp_path / name for name in ("crt", "key")}
    for name, path in files.items():
        path.write_bytes(certificates.stranger.certificate.with_suffix(f".{name}").read_bytes())
    settings = mutual(cluster, ssl_certificate_location=str(files["crt"]), ssl_key_location=str(files["key"]))
    config = written(tmp_path, cluster.door("MUTUAL"), settings)

    with serving(None, tmp_path, config_file=config, reload__watch_interval="100ms") as exporter:
        exporter.until(lambda m: (value(m, FAILED) or 0) >= 2)
        for name, path in files.items():
            path.write_bytes(certificates.client.certificate.with_suffix(f".{name}").read_bytes())
        exporter.until(lambda m: value(m, SUCCESS) == 1)

    assert "it rejects this client's certificate" in exporter.log


@pytest.mark.slow
def test_tokens_are_renewed_in_mid_run_and_a_failing_endpoint_is_reported(
    cluster: SecureCluster, tmp_path: Path
) -> None:
    """Tokens of two seconds: cycle after cycle succeeds with new ones. The endpoint fails, and comes back."""
    with TokenEndpoint(life_s=2) as endpoint:
        config = written(tmp_path, cluster.door("LOGIN"), {"security.protocol": "SASL_PLAINTEXT", **oauth(endpoint)})
        with serving(None, tmp_path, config_file=config) as exporter:
            exporter.until(lambda _: endpoint.issued >= 4)
            before = exporter.until(lambda m: value(m, SUCCESS) == 1)
            endpoint.failing = 503
            exporter.until(lambda m: value(m, SUCCESS) == 0)
            endpoint.failing = None
            exporter.until(lambda m: value(m, SUCCESS) == 1)

    assert (value(before, FAILED) or 0) <= 1, "a session that ends with its token may cost the cycle that it ends in"
    assert "returned no token: it responded with 503 Service Unavailable" in exporter.log
    assert CLIENT_SECRET not in exporter.log
    assert endpoint.asked[0] == {"grant_type": "client_credentials", "scope": "kafka.read"}
