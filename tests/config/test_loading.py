"""Settings from defaults, file, environment and flags: which one wins, and the messages about mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.config import values
from exporter.config.kafka_section import SaslSettings, TlsSettings
from exporter.config.loading import ConfigurationError, environment_name, flag_name, load
from exporter.config.settings import SETTINGS, Settings
from exporter.config.table import Setting, given_in
from tests.config.sasl import sasl_of

SERVERS = "kafka:\n  bootstrap.servers: broker:9092\n"


def load_yaml(text: str, **environment: str) -> Settings:
    return load(file=("config.yaml", text), environment=environment, flags={}).settings


def problems_of(text: str, environment: dict[str, str] | None = None, flags: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(file=("config.yaml", text), environment=environment or {}, flags=flags or {})
    return list(caught.value.problems)


def test_defaults_need_only_a_broker() -> None:
    """A broker's address is the one thing that must be set; the rest is as documented."""
    settings = load(file=None, environment={}, flags={"kafka.bootstrap.servers": "a:1,[::1]:2"}).settings

    assert settings.kafka.bootstrap_servers == (("a", 1), ("::1", 2))
    assert (settings.scan.interval_ms, settings.scan.deadline_ms) == (30_000, 25_000)
    assert settings.publish.listen_address == "0.0.0.0:9814"
    assert settings.publish.stale_after_cycles == 3
    assert (settings.verdicts.late_padding_ms, settings.verdicts.max_timeout_fallback_ms) == (300_000, 900_000)


def test_the_deadline_follows_the_interval() -> None:
    """A shorter interval alone is enough; where both are set, both count."""
    short = load(file=("config.yaml", SERVERS + "scan: {interval: 15s}\n"), environment={}, flags={}).settings
    both = load(
        file=("config.yaml", SERVERS + "scan: {interval: 15s, deadline: 14s}\n"), environment={}, flags={}
    ).settings

    assert (short.scan.deadline_ms, both.scan.deadline_ms) == (12_500, 14_000)


def test_a_variable_with_single_underscores_is_refused_with_its_right_name() -> None:
    """It would be ignored in silence; variables that Kubernetes makes for a Service of this name are not settings."""
    environment = {
        "KAFKA_TRANSACTION_EXPORTER_SCAN_INTERVAL": "15s",
        "KAFKA_TRANSACTION_EXPORTER_SERVICE_HOST": "10.0.0.1",
        "KAFKA_TRANSACTION_EXPORTER_PORT_9814_TCP": "tcp://10.0.0.1:9814",
    }

    assert problems_of(SERVERS, environment) == [
        (
            "KAFKA_TRANSACTION_EXPORTER_SCAN_INTERVAL: unknown setting; "
            "did you mean KAFKA_TRANSACTION_EXPORTER__SCAN__INTERVAL?"
        )
    ]


def test_file_environment_and_flags_win_in_that_order() -> None:
    """The environment overrides the file, and a flag overrides both."""
    text = SERVERS + "scan: {interval: 10s, deadline: 5s}\nlog: {level: error}\n"
    environment = {
        "KAFKA_TRANSACTION_EXPORTER__SCAN__INTERVAL": "20s",
        "KAFKA_TRANSACTION_EXPORTER__SCAN__DEADLINE": "6s",
        "KAFKA_TRANSACTION_EXPORTER_PORT": "tcp://10.0.0.1:9814",  # Kubernetes makes such for a Service of this name
        "HOME": "/nowhere",
    }

    settings = load(file=("config.yaml", text), environment=environment, flags={"scan.deadline": "7s"}).settings

    assert (settings.scan.interval_ms, settings.scan.deadline_ms, settings.log_level) == (20_000, 7000, "error")


def test_nested_and_dotted_keys_are_the_same() -> None:
    """`kafka: {sasl: {mechanisms: ...}}` and `kafka: {sasl.mechanism: ...}` name one property, librdkafka's alias too."""
    nested = load_yaml(
        "kafka: {bootstrap: {servers: [a:1, b:2]}, security: {protocol: sasl_ssl},\n"
        "  sasl: {mechanisms: SCRAM-SHA-512, username: u, password: p}}"
    )
    dotted = load_yaml(
        "kafka.bootstrap.servers: a:1,b:2\nkafka.sasl.username: u\n"
        "kafka: {security.protocol: SASL_SSL, sasl.mechanism: scram-sha-512, sasl.password: p}"
    )

    assert nested == dotted
    assert sasl_of(nested).mechanism == "SCRAM-SHA-512"


def test_security_is_handed_to_the_client_under_its_own_names() -> None:
    """Each security property of the kafka section becomes kafka-python's, and none is lost."""
    settings = load_yaml(
        """
kafka:
  bootstrap.servers: broker:9093
  security.protocol: SASL_SSL
  sasl.mechanism: PLAIN
  sasl.username: exporter
  sasl.password: "with,comma"
  ssl.ca.location: /ca.pem
  ssl.certificate.location: /client.pem
  ssl.key.location: /client.key
  ssl.key.password: "0042"
  ssl.endpoint.identification.algorithm: none
"""
    )

    assert settings.kafka.security_protocol == "SASL_SSL"
    assert settings.kafka.sasl == SaslSettings(
        mechanism="PLAIN", username="exporter", password="with,comma", kerberos_service_name=None, oauth=None
    )
    assert settings.kafka.tls == TlsSettings(
        ca_location="/ca.pem",
        crl_location=None,
        certificate_location="/client.pem",
        key_location="/client.key",
        key_password="0042",
        keystore_location=None,
        keystore_password=None,
        truststore_location=None,
        truststore_password=None,
        endpoint_identification_algorithm="none",
    )
    assert not settings.kafka.tls.check_hostname
    assert "0042" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "scan: {deadline: 30s}",
            "config.yaml:3: scan.deadline must be shorter than scan.interval, or cycles would be missed",
        ),
        (
            "kafka.security.protocol: SASL_SSL",
            (
                "kafka.sasl.mechanism is required by kafka.security.protocol: one of PLAIN, SCRAM-SHA-256, "
                "SCRAM-SHA-512, OAUTHBEARER, GSSAPI, AWS_MSK_IAM"
            ),
        ),
        (
            "kafka.sasl.username: me",
            (
                "config.yaml:3: kafka.sasl.username would be ignored: "
                "kafka.security.protocol is not SASL_PLAINTEXT or SASL_SSL"
            ),
        ),
        ("scan:\n\tinterval: 30s", "config.yaml:4: not valid YAML: a tab: indent with spaces"),
        (
            "kafka.ssl.ca.location: /ca.pem",
            "config.yaml:3: kafka.ssl.ca.location would be ignored: kafka.security.protocol is not SSL or SASL_SSL",
        ),
        (
            "kafka:",
            "config.yaml:3: kafka: a section, not a setting: indent its settings, or write kafka.bootstrap.servers: ...",
        ),
        (
            "kafka.sasl.jaas.config: x",
            (
                "config.yaml:3: kafka.sasl.jaas.config: unknown setting; write its login as kafka.sasl.username and "
                "kafka.sasl.password"
            ),
        ),
        (
            "kafka: {security.protocol: SASL_SSL, sasl.mechanism: GSSAPI, sasl.username: me}",
            "config.yaml:3: kafka.sasl.username would be ignored: kafka.sasl.mechanism is GSSAPI",
        ),
        (
            "kafka: {security.protocol: SASL_PLAINTEXT, sasl.mechanism: AWS_MSK_IAM}",
            "config.yaml:3: kafka.security.protocol must be SASL_SSL with kafka.sasl.mechanism AWS_MSK_IAM",
        ),
        (
            "kafka: {security.protocol: SSL, ssl.key.location: /k.pem}",
            "config.yaml:3: kafka.ssl.key.location has no effect without kafka.ssl.certificate.location",
        ),
        (
            "kafka: {security.protocol: SSL, ssl.ca.location: /c.pem, ssl.truststore.location: /t.p12}",
            "config.yaml:3: kafka.ssl.truststore.location and kafka.ssl.ca.location cannot both be set",
        ),
        (
            "kafka.enable.ssl.certificate.verification: false",
            "config.yaml:3: kafka.enable.ssl.certificate.verification must be true: no other value is supported",
        ),
        ("kafka.bootstrap.servers: b:1", "config.yaml:3: kafka.bootstrap.servers is set twice, first at config.yaml:2"),
    ],
)
def test_what_would_be_ignored_or_cannot_work_is_refused(text: str, problem: str) -> None:
    """A setting that would silently do nothing is an error, security names above all; so are impossible pairs."""
    assert problems_of(SERVERS + text) == [problem]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "config.yaml:1: not valid YAML: expected the node content, but found '<stream end>'"),
        ("- a", "config.yaml:1: must be a mapping of sections"),
    ],
)
def test_a_file_that_is_not_a_mapping_is_refused(text: str, problem: str) -> None:
    """Broken YAML and YAML of another shape give a line and a sentence; what the file may have is not called missing."""
    assert problems_of(text, flags={"kafka.bootstrap.servers": "a:1"}) == [problem]
    assert problems_of(text) == [problem]


def test_an_empty_file_is_as_good_as_none() -> None:
    """A file of comments alone changes nothing."""
    with_file = load(file=("c.yaml", "# nothing\n"), environment={}, flags={"kafka.bootstrap.servers": "a:1"}).settings

    assert with_file == load(file=None, environment={}, flags={"kafka.bootstrap.servers": "a:1"}).settings


@pytest.mark.parametrize(
    ("written", "size"),
    [("500MB", 500_000_000), ("1.5kB", 1500), ("2GB", 2 * 10**9), ("7B", 7), ("10B", 10), ("1TB", 10**12)],
)
def test_sizes_are_taken_with_their_units(written: str, size: int) -> None:
    """In powers of ten, as disks are sold."""
    assert load_yaml(SERVERS + f"history.retention_size: {written}").history.retention_bytes == size


@pytest.mark.parametrize("written", ["0", "-1", "1GiB", "much", "true", "1 GB"])
def test_invalid_sizes_are_refused(written: str) -> None:
    """With an example."""
    (found,) = problems_of(SERVERS + f"history.retention_size: {written}")

    assert found == "config.yaml:3: history.retention_size must be a size such as 500MB or 2GB"


@pytest.mark.parametrize("written", ["0755", "0x1F", "1_000", "12:30:00", "1.50", "007", "1e3"])
def test_a_password_of_digits_stays_as_it_is_written(written: str) -> None:
    """YAML would make another number of it, and the login would fail without a reason."""
    text = SERVERS.rstrip() + (
        f"\n  security.protocol: SASL_PLAINTEXT\n  sasl.mechanism: PLAIN\n  sasl.username: {written}"
        f"\n  sasl.password: {written}\n"
    )
    sasl = load_yaml(text).kafka.sasl
    assert sasl is not None
    assert (sasl.username, sasl.password) == (written, written)


@pytest.mark.parametrize(
    ("setting", "units"),
    [("scan.interval", "write 30s, 30m, 30h or 30d"), ("history.retention_size", "write 30B, 30MB or 30GB")],
)
def test_a_number_without_a_unit_is_refused(setting: str, units: str) -> None:
    """A retention of 30 was meant as days or gigabytes, and kept 30 s or bytes of a history."""
    (found,) = problems_of(SERVERS + f"{setting}: 30")
    assert found.endswith(f": 30 has no unit, {units}")


@pytest.mark.parametrize(("setting", "unit"), [("scan.interval", "d"), ("history.retention_size", "TB")])
def test_a_number_beyond_any_clock_or_disk_is_refused(setting: str, unit: str) -> None:
    """Of however many digits."""
    for digits in (30, 400):
        (found,) = problems_of(SERVERS + f"{setting}: " + "9" * digits + unit)
        assert found.endswith("is too large")


def test_groups_are_taken_from_yaml_and_as_json() -> None:
    """In a file as a list, in a variable or flag as JSON; patterns are compiled, in order."""
    text = SERVERS + "transaction_log: {groups: [{name: orders, match: 'orders-.*'}, {name: all, match: '.*'}]}"
    written = '[{"name": "orders", "match": "orders-.*"}, {"name": "all", "match": ".*"}]'

    from_file = load_yaml(text).transaction_log.groups
    from_variable = load_yaml(
        SERVERS, KAFKA_TRANSACTION_EXPORTER__TRANSACTION_LOG__GROUPS=written
    ).transaction_log.groups

    assert from_file == from_variable == (("orders", re.compile("orders-.*")), ("all", re.compile(".*")))
    assert load_yaml(SERVERS).transaction_log.groups == ()


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("orders", 'must be a list such as [{"name": "orders", "match": "orders-.*"}]'),
        ("[orders]", 'must be a list such as [{"name": "orders", "match": "orders-.*"}]'),
        ("[{name: a}]", 'must be a list such as [{"name": "orders", "match": "orders-.*"}]; a group has no match'),
        (
            "[{name: a, pattern: x}]",
            """must be a list such as [{"name": "orders", "match": "orders-.*"}]; 'pattern' is not a key of a group""",
        ),
        ("[{name: 'a b', match: x}]", "must have names of letters, digits, `.`, `_` and `-`; 'a b' is not one"),
        ("[{name: a, match: x}, {name: a, match: y}]", "must name each group once; 'a' occurs twice"),
        (
            "[{name: a, match: '('}]",
            "must have regular expressions; '(' of 'a' is not one: missing ), unterminated subpattern at position 0",
        ),
        ("[{name: a, match: 5}]", "must have regular expressions; 5 of 'a' is not one: first argument must be string"),
    ],
)
def test_invalid_groups_are_refused(written: str, problem: str) -> None:
    """With what was wrong, and what it should look like."""
    (found,) = problems_of(SERVERS + f"transaction_log.groups: {written}\n")

    assert found.startswith(f"config.yaml:3: transaction_log.groups {problem}")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("[orders, 'pay.*']", ("orders", "pay.*")),
        ("'[a-z]+'", ("[a-z]+",)),
        ("orders", ("orders",)),
        ("""'["a", "b"]'""", ("a", "b")),
        ("[]", ()),
        ("''", ()),
        ("' '", ()),
    ],
)
def test_patterns_of_topics_are_a_list_or_one_expression(written: str, expected: tuple[str, ...]) -> None:
    """A list in a file, JSON in a variable, or an expression, which may begin with a bracket."""
    found = load_yaml(SERVERS + f"scan: {{topics: {{include: {written}}}}}\n").scan.topics_include

    assert tuple(rule.pattern for rule in found) == expected


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("5", 'must be a list of regular expressions such as ["orders", "payments-.*"], or one of them'),
        ("[5]", 'must be a list of regular expressions such as ["orders", "payments-.*"], or one of them'),
        (
            "'*'",
            "must have regular expressions; '*' is not one: nothing to repeat at position 0; for all such names write '.*'",
        ),
        ("'('", "must have regular expressions; '(' is not one: missing ), unterminated subpattern at position 0"),
        ("'(a+)+b'", "must have regular expressions that are quick to match; '(a+)+b': matching could take too long"),
        ("['']", "must have regular expressions; an empty one matches nothing"),
    ],
)
def test_invalid_patterns_of_topics_are_refused(written: str, problem: str) -> None:
    """With what was wrong."""
    (found,) = problems_of(SERVERS + f"scan.topics.exclude: {written}\n")

    assert found.startswith(f"config.yaml:3: scan.topics.exclude {problem}")


@pytest.mark.parametrize("written", ["host", "host:0", "host:70000", ":9092", "ho st:1", "a:1,,b", ""])
def test_addresses_are_checked(written: str) -> None:
    """An address other than host:port is refused; an empty part between commas is not an address."""
    assert "kafka.bootstrap.servers must" in problems_of("", flags={"kafka.bootstrap.servers": written})[0]


def test_every_setting_has_one_environment_variable_and_one_flag() -> None:
    """The names derived from the table never collide."""
    names = [setting.name for setting in SETTINGS]

    assert len({environment_name(name) for name in names}) == len(names) == len({flag_name(name) for name in names})
    assert environment_name("kafka.bootstrap.servers") == "KAFKA_TRANSACTION_EXPORTER__KAFKA__BOOTSTRAP_SERVERS"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("scan:\n  interval: =\n", 2),
        ("scan:\n  interval: 2001-13-01\n", 2),
        ("scan.interval: !!int x\n", 1),
        ("scan.interval: !!python/name:os.system x\n", 1),
        ("scan:\n  interval: [{[a]: b}]\n", 2),
        ("scan.interval: &a [*a]\n", 1),
        ("scan.interval: " + "[" * 3000, 1),
    ],
)
def test_what_yaml_cannot_evaluate_is_a_problem_with_its_line(text: str, line: int) -> None:
    """Found by `make fuzz`: some values of YAML only fail when they are looked at."""
    with pytest.raises(ConfigurationError) as failure:
        load(file=("config.yaml", text), environment={}, flags={"kafka.bootstrap.servers": "a:1"})
    assert failure.value.problems[0].startswith((f"config.yaml:{line}: ", "config.yaml: "))


def test_a_setting_without_a_value_is_a_problem() -> None:
    """Found by `make fuzz`. An empty value is an error where the setting has a default."""
    with pytest.raises(ConfigurationError) as failure:
        load(file=("config.yaml", "scan:\n  interval:\n"), environment={}, flags={"kafka.bootstrap.servers": "a:1"})
    assert failure.value.problems == ("config.yaml:2: scan.interval has no value: remove it to use the default",)
    assert (
        load(
            file=("c.yaml", "baseline.file:"), environment={}, flags={"kafka.bootstrap.servers": "a:1"}
        ).settings.baseline.file
        is None
    )


@pytest.mark.parametrize("servers", ["me:{c}@host:9", "sasl://me:{c}@host:9", "a:1,me:{c},x@host:9", "[me:{c}@host:9]"])
def test_a_password_before_a_broker_is_not_shown(servers: str) -> None:
    (problem,) = problems_of(f"kafka: {{bootstrap.servers: {servers.format(c='c4nary')!r}}}")

    assert "have settings of their own" in problem
    assert "c4nary" not in problem


def test_a_password_in_the_token_endpoint_is_not_shown() -> None:
    endpoint = "sasl.oauthbearer.token.endpoint.url: 'https://u:c4nary@host/t'"
    (problem,) = problems_of(f"kafka: {{bootstrap.servers: 'a:1', {endpoint}}}")

    assert "must be a URL without a user and a password" in problem
    assert "c4nary" not in problem


def test_aliases_of_aliases_end() -> None:
    """Ten lines would expand to a billion values."""
    for opening, item, closing in (("{", "k{n}: *a{n}", "}"), ("[", "*a{n}", "]")):
        lines = ["a0: &a0 {x: 1}" if opening == "{" else "a0: &a0 [x]"]
        for level in range(1, 11):
            inside = ", ".join(item.format(n=level - 1).replace("k", f"k{number}_") for number in range(9))
            lines.append(f"a{level}: &a{level} {opening}{inside}{closing}")
        assert problems_of("\n".join(lines))[:1] == [
            "config.yaml: not valid YAML: with its YAML aliases it has more than 100000 values"
        ]


@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting.kind in {values.PATH, values.PLACE}])
def test_an_empty_path_is_none(setting: Setting) -> None:
    """A template may have nothing to put there; as a path it would be the working folder."""
    loaded = load(file=("config.yaml", f"{SERVERS}{setting.name}: ''\n"), environment={}, flags={})

    assert setting.name not in given_in(loaded.settings)
    assert Path() not in loaded.files


@pytest.mark.parametrize("written", ["", "/", ".", "a/.."])
def test_a_state_file_has_a_name(written: str) -> None:
    """A fleet's clusters get names beside it."""
    assert problems_of(f"{SERVERS}state.file: '{written}'\n") == [
        "config.yaml:3: state.file must be the path of a file, `none` or `auto`"
    ]


def test_a_path_has_no_null_character() -> None:
    """No file can have this name: to open it is an error of another kind."""
    assert problems_of(f'{SERVERS}baseline.file: "a\\0b"\n') == [
        "config.yaml:3: baseline.file must be a path, which has no null character"
    ]


@pytest.mark.parametrize("written", ["''", "[]"])
def test_no_allowed_host_is_refused(written: str) -> None:
    """Neither no broker nor every host can be meant."""
    (found,) = problems_of(f"{SERVERS}kafka.allowed.hosts: {written}\n")
    assert found == (
        "config.yaml:3: kafka.allowed.hosts must have at least one regular expression: leave it out to match everything"
    )


def test_nothing_is_stuck_at_once() -> None:
    """The option of find-hanging takes 0 for never; the setting would take it for at once."""
    assert problems_of(f"{SERVERS}verdicts.stuck_after: 0\n") == [
        "config.yaml:3: verdicts.stuck_after must be longer than 0"
    ]


@pytest.mark.parametrize("url", ["tokens.example.org/token", "file:///etc/passwd", "https:///token"])
def test_the_token_endpoint_is_reached_by_http(url: str) -> None:
    """Otherwise each login would fail, long after the start."""
    found = problems_of(f"{SERVERS}kafka.sasl.oauthbearer.token.endpoint.url: {url}\n")
    assert any("token.endpoint.url must begin with http:// or https:// and a host" in problem for problem in found)
