"""What is said at the start: secrets in clear, globs in place of expressions, too few descriptors."""

from __future__ import annotations

import resource

import pytest

from exporter.commands.cautions import exposed_secrets, globs, lacking_descriptors
from exporter.config.loading import load
from exporter.config.settings import Settings


def settings_of(**flags: str) -> Settings:
    names = {name.replace("__", "."): value for name, value in flags.items()}
    secrets = {
        f"KAFKA_TRANSACTION_EXPORTER__KAFKA__SASL_{name}": "s" for name in ("PASSWORD", "OAUTHBEARER_CLIENT_SECRET")
    }
    login = names.get("kafka.sasl.mechanism", "")
    environment = {name: value for name, value in secrets.items() if ("OAUTH" in name) == (login == "OAUTHBEARER")}
    given = {"kafka.bootstrap.servers": "a:1", **names}
    return load(file=None, environment=environment if login else {}, flags=given).settings


PLAIN = {"kafka__sasl__mechanism": "PLAIN", "kafka__sasl__username": "u"}
OAUTH = {"kafka__sasl__mechanism": "OAUTHBEARER", "kafka__sasl__oauthbearer__client__id": "c"}
URL = "kafka__sasl__oauthbearer__token__endpoint__url"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, []),
        ({**PLAIN, "kafka__security__protocol": "SASL_PLAINTEXT"}, ["PLAIN without TLS sends the password in clear"]),
        ({**PLAIN, "kafka__security__protocol": "SASL_SSL"}, []),
        ({**OAUTH, "kafka__security__protocol": "SASL_SSL", URL: "http://t/token"}, ["url is http: the client secret"]),
        ({**OAUTH, "kafka__security__protocol": "SASL_SSL", URL: "https://t/token"}, []),
    ],
)
def test_a_secret_that_is_sent_in_clear_is_named(given: dict[str, str], words: list[str]) -> None:
    """By its setting, and with what to do."""
    sentences = list(exposed_secrets(settings_of(**given)))
    assert len(sentences) == len(words)
    assert all(word in sentence for word, sentence in zip(words, sentences, strict=True))


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("pay*", "pay.*"),
        ("a.b-c_*", "a.b-c_.*"),
        ("orders-1*", "orders-1.*"),
        ("orders-*", "orders-.*"),
        ("pay.*", None),
        ("pay", None),
        ("p[ay]*", None),
    ],
)
def test_a_pattern_of_a_shell_is_named(pattern: str, meant: str | None) -> None:
    """As an expression it is valid, and matches something else."""
    sentences = list(globs(settings_of(scan__topics__exclude=pattern)))
    wanted = f"scan.topics.exclude {pattern!r} is a regular expression: for all such names write {meant!r}"
    assert sentences == ([] if meant is None else [wanted])


def test_a_low_limit_of_descriptors_is_said_with_numbers() -> None:
    """One warning."""
    settings = settings_of()
    assert lacking_descriptors(settings, 64) == (
        "the limit of open files is 64, and 1 cluster may need 192: raise the limit (ulimit -n 192)"
    )
    assert lacking_descriptors(settings, 192) is None
    assert lacking_descriptors(settings, resource.RLIM_INFINITY) is None
