"""Translates Java's property names, as Kafka's own tools use them, for `--command-config client.properties`.

A property that would be ignored silently is refused, unless it cannot change what a command sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from exporter.config.loading import ConfigurationError, Written
from exporter.config.sasl import MECHANISMS

NAMES = {
    "bootstrap.servers": "kafka.bootstrap.servers",
    "client.id": "kafka.client.id",
    "request.timeout.ms": "kafka.request.timeout.ms",
    "security.protocol": "kafka.security.protocol",
    "sasl.mechanism": "kafka.sasl.mechanism",
    "sasl.oauthbearer.token.endpoint.url": "kafka.sasl.oauthbearer.token.endpoint.url",
    "sasl.kerberos.service.name": "kafka.sasl.kerberos.service.name",
    "ssl.truststore.password": "kafka.ssl.truststore.password",
    "ssl.keystore.password": "kafka.ssl.keystore.password",
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
"""Timing and metrics of the Java client: they change neither the principal nor what is visible."""

_MODULES = {
    mechanism.login_module: mechanism for mechanism in MECHANISMS.values() if mechanism.login_module is not None
}
"""Mechanisms that differ only in their hash share a module."""
_CALLBACK_HANDLERS = "org.apache.kafka.common.security.oauthbearer."
_STORE_TYPES = frozenset({"PEM", "PKCS12", "JKS"})
_LOGIN = re.compile(r"\s*(?P<module>[\w.]+)\s+required\b\s*(?P<options>.*?);?\s*", re.DOTALL)
_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def properties(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, key, value) of a java.util.Properties file, including continuation lines and escapes."""
    number = 0
    lines = iter(re.split(r"\r\n|\r|\n", text))  # as Java ends a line; Python knows eight more ways
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
    """The settings in a Java client's properties file. Raises ConfigurationError with every problem."""
    found: dict[str, Written] = {}
    problems: list[str] = []
    lines = [(line, key, value.strip()) for line, key, value in properties(text)]
    # Java's own default is JKS, and it reads PKCS12 under that name as well.
    types = {key: value.upper() for _, key, value in lines if key.endswith("store.type")}
    for line, key, value in lines:
        place = f"{path}:{line}"
        try:
            found.update({name: Written(ours, place) for name, ours in _ours(key, value, types).items()})
        except ValueError as error:
            problems.append(f"{place}: {_named(key)} {error}")
    if problems:
        raise ConfigurationError(problems)
    return found


_PROPERTY = re.compile(r"[a-z][a-z0-9]*(?:\.[a-z0-9]+)+|[a-z]{2,20}")


def _named(key: str) -> str:
    """The key where it may be the name of a property: in the wrong place of a file a secret may be a key."""
    return key if _PROPERTY.fullmatch(key) else "a line whose beginning is not the name of a property (not shown)"


def _ours(key: str, value: str, types: Mapping[str, str]) -> dict[str, str]:
    """The settings for one property. Raises ValueError with the end of a sentence."""
    if key in HARMLESS:
        return {}
    if key == "sasl.jaas.config":
        return _login(value)
    if key in types:
        if types[key] not in _STORE_TYPES:
            raise ValueError("is of another type: only PEM and PKCS12 stores can be read")
        return {}
    if key in {"ssl.truststore.location", "ssl.keystore.location"}:
        return _store(key, value, is_pem=types.get(key.replace("location", "type")) == "PEM")
    if key == "ssl.key.password":
        return {"kafka.ssl.key.password": value} if types.get("ssl.keystore.type") == "PEM" else {}
    if key == "sasl.login.callback.handler.class" and value.startswith(_CALLBACK_HANDLERS):
        return {}
    if key not in NAMES:
        raise ValueError("would be ignored: it is not supported here")
    if key == "ssl.endpoint.identification.algorithm" and not value:
        return {NAMES[key]: "none"}
    return {NAMES[key]: value}


def _store(key: str, value: str, *, is_pem: bool) -> dict[str, str]:
    if not is_pem:
        return {f"kafka.{key}": value}
    if key == "ssl.keystore.location":
        # A PEM key store holds the key and the certificate chain in one file.
        return {"kafka.ssl.certificate.location": value, "kafka.ssl.key.location": value}
    return {"kafka.ssl.ca.location": value}


def _login(value: str) -> dict[str, str]:
    match = _LOGIN.fullmatch(value)
    if match is None or match["module"] not in _MODULES:
        raise ValueError(
            "must name PlainLoginModule or ScramLoginModule with username and password, or OAuthBearerLoginModule"
        )
    mechanism = _MODULES[match["module"]]
    names = mechanism.login_options
    options = {
        name: re.sub(r"\\(.)", r"\1", double or single or bare)
        for name, double, single, bare in _OPTION.findall(match["options"])
    }
    missing = [name for name, ours in names.items() if name not in options and ours in mechanism.needs]
    if missing:
        raise ValueError(f"must hold {' and '.join(missing)}")
    return {ours: options[name] for name, ours in names.items() if name in options}
