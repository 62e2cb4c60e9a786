"""References in values: files, variables, and the file of a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.config.loading import ConfigurationError, SettingsWithSources, load
from tests.config.sasl import sasl_of

BROKER = "kafka:\n  bootstrap.servers: a:1\n"
SASL = BROKER + "  security.protocol: SASL_PLAINTEXT\n  sasl.mechanism: PLAIN\n  sasl.username: me\n"


def loaded(text: str, files: dict[str, str | bytes] | None = None, **environment: str) -> SettingsWithSources:
    def read(path: Path) -> str:
        content = (files or {}).get(str(path))
        if content is None:
            raise FileNotFoundError(2, "No such file or directory")
        return content if isinstance(content, str) else content.decode()

    return load(file=("config.yaml", text), environment=environment, flags={}, read=read)


def problems(text: str, files: dict[str, str | bytes] | None = None, **environment: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        loaded(text, files, **environment)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("sasl.password: ${file:/run/secret}", {"/run/secret": "s3cret\n"}),
        ("sasl.password_file: /run/secret", {"/run/secret": "s3cret\r\n"}),
        ("sasl: {password: '${env:PASSWORD}'}", {}),
        ("sasl.password: 's3${env:MIDDLE}et'", {}),
        ("sasl.password: s3cret", {}),
    ],
)
def test_a_password_is_the_same_wherever_it_is_written(line: str, files: dict[str, str | bytes]) -> None:
    """In a file, in a variable, in part or as a whole; the line end after it is not part of it."""
    settings = loaded(f"{SASL}  {line}\n", files, PASSWORD="s3cret", MIDDLE="cr").settings

    assert sasl_of(settings).password == "s3cret"
    assert "s3cret" not in repr(settings)


def test_what_settings_are_made_of_is_known() -> None:
    """Files of references, of secrets and of certificates, so that a change of any is seen."""
    text = (
        BROKER
        + "  security.protocol: SASL_SSL\n  sasl.mechanism: PLAIN\n  sasl.username: ${file:/run/user}\n"
        + "  sasl.password_file: /run/password\n  ssl.ca.location: /etc/ca.pem\n"
    )

    files = loaded(text, {"/run/user": "me", "/run/password": "x"}).files

    assert sorted(map(str, files)) == ["/etc/ca.pem", "/run/password", "/run/user"]


def test_a_dollar_is_a_dollar() -> None:
    """Only a dollar and a brace mean something, and two dollars take that away."""
    sasl = sasl_of(loaded(SASL + "  sasl.password: 'a$b$$c$${env:HOME}{x}'\n").settings)

    assert sasl.password == "a$b$$c${env:HOME}{x}"


@pytest.mark.parametrize(
    ("line", "files", "problem"),
    [
        (
            "sasl.password_file: /run/none",
            {},
            (
                "config.yaml:6: kafka.sasl.password_file names the file /run/none, which cannot be read: "
                "No such file or directory"
            ),
        ),
        (
            "sasl.password_file: none",
            {},
            (
                f"config.yaml:6: kafka.sasl.password_file names the file none (here {Path('none').absolute()}: a relative "
                "path is below the present folder), which cannot be read: No such file or directory"
            ),
        ),
        (
            "sasl.password: ${file:/run/credentials/exporter.service/password}",
            {},
            (
                "config.yaml:6: kafka.sasl.password names the file /run/credentials/exporter.service/password, which "
                "cannot be read: No such file or directory (systemd shows it to root, and only while the unit runs)"
            ),
        ),
        (
            "sasl.password: ${file:/run/bytes}",
            {"/run/bytes": b"\xff\xfe"},
            "config.yaml:6: kafka.sasl.password names the file /run/bytes, which is not UTF-8 text",
        ),
        (
            "sasl.password: ${env:NOBODY}",
            {},
            "config.yaml:6: kafka.sasl.password refers to the environment variable NOBODY, which is not set",
        ),
        (
            "sasl.password: ${vault:secret}",
            {},
            (
                "config.yaml:6: kafka.sasl.password contains ${...}, and only ${file:PATH} and ${env:NAME} are "
                "known; write $${ for a literal ${"
            ),
        ),
    ],
)
def test_what_cannot_be_fetched_is_reported_with_its_place(
    line: str, files: dict[str, str | bytes], problem: str
) -> None:
    """Each in a sentence, none with a secret in it."""
    assert problems(f"{SASL}  {line}\n", files) == [problem]


def test_a_secret_and_its_file_exclude_each_other() -> None:
    """In one source: which one is meant cannot be known."""
    found = problems(
        SASL + "  sasl.password_file: /run/secret\n  sasl.password: two\n",
        {"/run/secret": "one"},
    )

    assert found == [
        ("config.yaml:6: kafka.sasl.password_file and kafka.sasl.password (at config.yaml:7) cannot both be set")
    ]


VARIABLE = "KAFKA_TRANSACTION_EXPORTER__KAFKA__SASL_PASSWORD"


@pytest.mark.parametrize(
    ("line", "variables", "password"),
    [
        ("sasl.password_file: /run/one", {VARIABLE: "two"}, "two"),
        ("sasl.password: one", {f"{VARIABLE}_FILE": "/run/two"}, "two"),
        ("sasl.password: one", {f"{VARIABLE}_FILE": ""}, "one"),
    ],
)
def test_a_later_source_has_a_secret_in_its_own_way(line: str, variables: dict[str, str], password: str) -> None:
    """It overrides the secret, whether its value or its file is written; an empty name of a file is none."""
    files: dict[str, str | bytes] = {"/run/one": "one", "/run/two": "two"}

    assert sasl_of(loaded(f"{SASL}  {line}\n", files, **variables).settings).password == password


def test_references_are_replaced_inside_of_lists_and_mappings() -> None:
    """A group's name and expression may come from a variable."""
    text = f"{BROKER}transaction_log.groups: [{{name: '${{env:TEAM}}', match: '${{env:TEAM}}-.*'}}]\n"

    ((name, pattern),) = loaded(text, TEAM="orders").settings.transaction_log.groups

    assert (name, pattern.pattern) == ("orders", "orders-.*")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("${env:IT}", "${env:IT}"),
        ("before-${env:IT}", None),
        ("c4nary $${x}", None),
        ("$${env:IT}", None),
    ],
)
def test_a_secret_is_shown_as_its_reference_only_where_that_is_all(written: str, shown: str | None) -> None:
    """Text next to the reference is a part of the secret."""
    text = f"{SASL}  sasl.password: '{written}'\n"
    loaded = load(file=("config.yaml", text), environment={"IT": "s3cret"}, flags={})

    assert loaded.written["kafka.sasl.password"].reference == shown
