"""`--command-config client.properties`: Java's property names, as Kafka's own tools take them, turned into ours.

A property that would be silently ignored is refused, unless it cannot change what a command sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from exporter.config.loading import ConfigurationError, Written

NAMES = {
    "bootstrap.servers": "kafka.bootstrap.servers",
    "client.id": "kafka.client.id",
    "request.timeout.ms": "kafka.request.timeout.ms",
    "security.protocol": "kafka.security.protocol",
    "sasl.mechanism": "kafka.sasl.mechanism",
    "ssl.truststore.location": "kafka.ssl.ca.location",
    "ssl.keystore.location": "kafka.ssl.certificate.location",
    "ssl.key.password": "kafka.ssl.key.password",
    "ssl.endpoint.identification.algorithm": "kafka.ssl.endpoint.identification.algorithm",
}
HARMLESS = frozenset(
    {
        "acks",
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "metadata.max.age.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)
"""Pace and metrics of the Java client: they change neither who we are nor what we see."""

_LOGIN = re.compile(
    r"\s*(?P<module>org\.apache\.kafka\.common\.security\.(?:plain\.PlainLoginModule|scram\.ScramLoginModule))"
    r"\s+required\s+(?P<options>.*?);?\s*",
    re.DOTALL,
)
_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def properties(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, key, value) of a java.util.Properties file, continuation lines and escapes included."""
    number = 0
    lines = iter(text.splitlines())
    for line in lines:
        number += 1
        first = number
        logical = line.lstrip(" \t\f")
        if not logical or logical[0] in "#!":
            continue
        while len(logical) - len(logical.rstrip("\\")) & 1:
            number += 1
            logical = logical[:-1] + next(lines, "").lstrip(" \t\f")
        match = re.fullmatch(r"((?:[^\\=:\s]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", logical, re.DOTALL)
        assert match is not None, "every line is a key and a rest"
        yield first, _unescaped(match[1]), _unescaped(match[2])


def _unescaped(written: str) -> str:
    def character(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", character, written)


def from_java(path: str, text: str) -> dict[str, Written]:
    """Our settings in a Java client's properties file. Raises ConfigurationError with every problem."""
    found: dict[str, Written] = {}
    problems: list[str] = []
    for line, key, value in properties(text):
        place = f"{path}:{line}"
        try:
            found.update({name: Written(ours, place) for name, ours in _ours(key, value.strip()).items()})
        except ValueError as error:
            problems.append(f"{place}: {key} {error}")
    if problems:
        raise ConfigurationError(problems)
    return found


def _ours(key: str, value: str) -> dict[str, str]:
    """Our settings for one property. Raises ValueError with the end of a sentence."""
    if key in HARMLESS:
        return {}
    if key == "sasl.jaas.config":
        return _login(value)
    if key in {"ssl.truststore.type", "ssl.keystore.type"}:
        if value.upper() != "PEM":
            raise ValueError(f"is {value}: only PEM stores can be read, convert it with keytool and openssl")
        return {}
    if key not in NAMES:
        raise ValueError("would be ignored: it is not supported here")
    if key == "ssl.endpoint.identification.algorithm" and not value:
        return {NAMES[key]: "none"}
    if key == "ssl.keystore.location":
        # A PEM key store holds the key and the certificate chain in one file.
        return {"kafka.ssl.certificate.location": value, "kafka.ssl.key.location": value}
    return {NAMES[key]: value}


def _login(value: str) -> dict[str, str]:
    match = _LOGIN.fullmatch(value)
    if match is None:
        raise ValueError("must name PlainLoginModule or ScramLoginModule with username and password")
    options = {
        name: re.sub(r"\\(.)", r"\1", double or single or bare)
        for name, double, single, bare in _OPTION.findall(match["options"])
    }
    if not {"username", "password"} <= options.keys():
        raise ValueError("must hold username and password")
    return {"kafka.sasl.username": options["username"], "kafka.sasl.password": options["password"]}
