"""No way to write a secret wrongly brings it into a message: YAML, a Java client's file, environment, and flags."""

from __future__ import annotations

import pytest

from exporter.config.java_properties import from_java
from exporter.config.loading import ConfigurationError, environment_name, load

SECRET = "Summer2024"
BROKER = {"kafka.bootstrap.servers": "a:1"}
BEGINNINGS = (
    "!",
    "!!",
    "!!int ",
    "!<",
    "*",
    "&",
    "&a *",
    "%",
    "@",
    "`",
    "|",
    ">",
    "{",
    "[",
    "}",
    "]",
    ",",
    "?",
    "? ",
    "- ",
)
MORE = (
    ": ",
    "#",
    "'",
    '"',
    "\\",
    "0x_",
    "=",
    "<<",
    "~",
    "\t",
    "2024-13-01 ",
    "!!binary ",
    "!!python/name:",
    "!!timestamp ",
)
SETTINGS = ("kafka.sasl.password", "kafka.sasl.oauthbearer.client.secret")
NESTED = (
    "kafka: {{sasl: {{password: {secret}}}}}",
    "kafka:\n  sasl:\n    password:\n      {secret}: 1",
    "kafka:\n  sasl:\n    password: [{secret}]",
    "kafka:\n  sasl:\n    password: {{x: {secret}}}",
    "kafka:\n  sasl.password:\n    - {secret}\n    - {secret}",
    "kafka.sasl.password: '{secret}\n",
    'kafka.sasl.password: "{secret}',
    'kafka.sasl.password: "\\x{secret}"',
    "kafka.sasl.password: {secret}: {secret}",
    "kafka.sasl.password: a\n kafka.sasl.password: {secret}",
    "kafka.sasl.password: {secret}\nkafka.sasl.password: {secret}",
    "kafka.sasl.password {secret}",
    "kafka:\n sasl:\n  password: {secret}\n   username: me",
    "---\nkafka.sasl.password: {secret}\n---\na: {secret}",
    "kafka.sasl.username: !env {secret}",
    "kafka.sasl.password: !{secret} x",
    "kafka.sasl.password: *{secret}",
    "kafka.sasl.password: &{secret}",
)
TEXTS = [
    *(f"{setting}: {begin}{SECRET}" for setting in SETTINGS for begin in (*BEGINNINGS, *MORE)),
    *(text.format(secret=SECRET) for text in NESTED),
]
PROPERTIES = [
    SECRET,
    f" {SECRET}",
    f"{SECRET}=",
    f"{SECRET} = x",
    f"{SECRET}: y",
    f"sasl.password={SECRET}",
    f"sasl.jaas.config={SECRET}",
    f"sasl.jaas.config=PlainLoginModule password={SECRET};",
    f'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required password="{SECRET}";',
    f'sasl.jaas.config=org.example.Unknown required password="{SECRET}";',
    f"sasl.mechanism=PLAIN\\\n{SECRET}",
    f"ssl.keystore.type={SECRET}",
    f"ssl.key.password\n{SECRET}",
    f"security.protocol=SASL_SSL\n{SECRET}\\\n{SECRET}",
]


def problems(**sources: object) -> str:
    """Everything that is said; empty where the settings are valid."""
    given: dict[str, object] = {"file": None, "environment": {}, "flags": BROKER, **sources}
    try:
        load(**given)  # type: ignore[arg-type]
    except ConfigurationError as error:
        return "\n".join([*error.problems, str(error)])
    return ""


@pytest.mark.parametrize("text", TEXTS)
def test_yaml_that_is_not_what_was_meant(text: str) -> None:
    assert SECRET not in problems(file=("config.yaml", text + "\n"))


@pytest.mark.parametrize("text", PROPERTIES)
def test_a_java_clients_file(text: str) -> None:
    try:
        from_java("client.properties", text)
    except ConfigurationError as error:
        said = "\n".join([*error.problems, str(error)])
        assert SECRET not in said
        assert "client.properties:" in said


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(
    "value", [f"${{{SECRET}", f"${{file:{SECRET}", f"${{env:{SECRET}}}x", f"{SECRET}\x00", f"\n{SECRET}"]
)
def test_environment_and_flags(setting: str, value: str) -> None:
    """A reference names a variable or a file, which is no secret; what is none of these is not shown."""
    said = problems(environment={environment_name(setting): value}) + problems(flags={**BROKER, setting: value})

    assert SECRET not in said or "${" in value


@pytest.mark.parametrize("url", [f"https://h/?token={SECRET}", f"https://h/x#{SECRET}", f"https://me:{SECRET}@h/"])
def test_a_url_that_is_shown_has_no_place_for_a_token(url: str) -> None:
    said = problems(flags={**BROKER, "publish.external_url": url})

    assert said
    assert SECRET not in said
