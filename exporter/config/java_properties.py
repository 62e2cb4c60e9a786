"""Translates the property names of Java's client and of librdkafka for `--command-config client.properties`.

A property that is not supported is refused, unless it cannot change what a command sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from exporter.config.jaas import login
from exporter.config.kafka_section import ALIASES, PEM_OF_STORE, SAME_AS_OURS
from exporter.config.loading import ConfigurationError
from exporter.config.settings import BY_NAME
from exporter.config.sources import SettingSource
from exporter.config.suggestions import nearest

NAMES = {
    "bootstrap.servers": "kafka.bootstrap.servers",
    "metadata.broker.list": "kafka.bootstrap.servers",
    "client.id": "kafka.client.id",
    "request.timeout.ms": "kafka.request.timeout.ms",
    "security.protocol": "kafka.security.protocol",
    "sasl.mechanism": "kafka.sasl.mechanism",
    "sasl.oauthbearer.token.endpoint.url": "kafka.sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id": "kafka.sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "kafka.sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope": "kafka.sasl.oauthbearer.scope",
    "sasl.oauthbearer.header.urlencode": "kafka.sasl.oauthbearer.header.urlencode",
    "sasl.kerberos.service.name": "kafka.sasl.kerberos.service.name",
    "ssl.truststore.password": "kafka.ssl.truststore.password",
    "ssl.keystore.password": "kafka.ssl.keystore.password",
    "ssl.endpoint.identification.algorithm": "kafka.ssl.endpoint.identification.algorithm",
}
HARMLESS = frozenset(
    {
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
        # These are for the Java client's own logins.
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.read.timeout.ms",
        "security.providers",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        # These are for producers.
        *("acks", "batch.size", "buffer.memory", "compression.type", "delivery.timeout.ms", "enable.idempotence"),
        *(
            "linger.ms",
            "max.block.ms",
            "max.in.flight.requests.per.connection",
            "max.request.size",
            "partitioner.class",
        ),
        *("transaction.timeout.ms", "transactional.id", "interceptor.classes"),
        # These are for consumers.
        *("allow.auto.create.topics", "auto.commit.interval.ms", "auto.offset.reset", "check.crcs", "client.rack"),
        *("enable.auto.commit", "exclude.internal.topics"),
        *("group.id", "group.instance.id", "group.protocol", "heartbeat.interval.ms", "isolation.level"),
        *("max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records", "session.timeout.ms"),
        *(
            "partition.assignment.strategy",
            "key.deserializer",
            "value.deserializer",
            "key.serializer",
            "value.serializer",
        ),
        *("metadata.max.idle.ms", "transaction.two.phase.commit.enable", "group.remote.assignor"),
        *("share.acknowledgement.mode", "share.acquire.mode"),
        # These are for Kafka Streams.
        *("acceptable.recovery.lag", "application.id", "application.server", "built.in.metrics.version"),
        *("buffered.records.per.partition", "cache.max.bytes.buffering", "commit.interval.ms", "max.task.idle.ms"),
        *("deserialization.exception.handler", "dsl.store.suppliers.class", "ensure.explicit.internal.resource.naming"),
        *("max.warmup.replicas", "poll.ms", "probing.rebalance.interval.ms", "processing.exception.handler"),
        *("processing.guarantee", "production.exception.handler", "repartition.purge.interval.ms"),
        *("replication.factor", "task.timeout.ms", "topology.optimization", "upgrade.from"),
        *("windowed.inner.class.serde", "windowstore.changelog.additional.retention.ms"),
        # These are for librdkafka.
        *(
            "auto.commit.enable",
            "batch.num.messages",
            "broker.address.family",
            "broker.address.ttl",
            "builtin.features",
        ),
        *("broker.version.fallback", "coordinator.query.interval.ms", "debug", "enable.partition.eof", "log_level"),
        *("delivery.report.only.error", "enable.auto.offset.store", "enable.gapless.guarantee", "enable.random.seed"),
        *("enable.sparse.connections", "group.protocol.type", "max.in.flight", "metadata.request.timeout.ms"),
        *(
            "partitioner",
            "plugin.library.paths",
            "queued.max.messages.kbytes",
            "queued.min.messages",
            "queuing.strategy",
        ),
        *(
            "receive.message.max.bytes",
            "reconnect.backoff.jitter.ms",
            "request.required.acks",
            "statistics.interval.ms",
        ),
        *("sticky.partitioning.linger.ms", "topic.blacklist"),
        # These are for serializers with a schema registry.
        *("auto.register.schemas", "key.subject.name.strategy", "latest.compatibility.strict", "normalize.schemas"),
        *("specific.avro.reader", "use.latest.version", "value.subject.name.strategy"),
    }
)
"""Timing, metrics, producers, consumers, Streams: they change neither the principal nor what is visible."""
HARMLESS_BEGINNINGS = (
    "schema.registry.",
    "basic.auth.",
    "compression.",
    "metadata.recovery.",
    "partitioner.",
    # These are for Kafka Streams.
    *("default.key.", "default.value.", "default.deserialization.", "default.production.", "default.timestamp."),
    *("default.dsl.", "num.standby.", "num.stream.", "rack.aware.assignment.", "rocksdb.", "state.", "statestore."),
    # These are for serializers.
    *("json.", "spring.json.", "spring.deserializer.", "specific.protobuf."),
    # These are for librdkafka, and for its clients in Go and .NET.
    *("api.version.", "client.software.", "consume.", "fetch.", "log.", "message.", "offset.store.", "produce."),
    *("queue.buffering.", "socket.", "topic.metadata.", "go.", "dotnet.", "internal."),
    "sasl.login.refresh.",
    "sasl.login.retry.",
    "sasl.login.connect.",
)
"""Properties of other servers that vendors put into one file, and of the Java client's pace."""
_PEM_OF_LIBRDKAFKA = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
_TLS_VERSIONS = frozenset({"TLSV1.2", "TLSV1.3", "TLS"})
_INLINE_PEM = {
    "ssl.truststore.certificates": "ssl.truststore.location",
    "ssl.keystore.certificate.chain": "ssl.keystore.location",
    "ssl.keystore.key": "ssl.keystore.location",
}

_IAM_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
_IAM_BY_TOKENS = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
_CALLBACK_HANDLERS = "org.apache.kafka.common.security.oauthbearer."
_STORE_TYPES = frozenset({"PEM", "PKCS12", "JKS"})
_OF_JAVA_ALONE = ("sasl.jaas.config", "ssl.truststore.type", "ssl.keystore.type")
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


def from_java(path: str, text: str) -> dict[str, SettingSource]:
    """The settings in a client's properties file. Raises ConfigurationError with every problem."""
    if (own := _own_section(text)) is not None:
        raise ConfigurationError([f"{path}:{own}: this is a file of this program's settings: give it as --config.file"])
    found: dict[str, SettingSource] = {}
    problems: list[str] = []
    lines = [(line, key, value.strip()) for line, key, value in properties(text)]
    given = {key: value for _, key, value in lines}
    for line, key, value in lines:
        place = f"{path}:{line}"
        try:
            found.update({name: SettingSource(ours, place) for name, ours in _ours(key, value, given).items()})
        except ValueError as error:
            problems.append(f"{place}: {_named(key)} {error}")
    if problems:
        raise ConfigurationError(problems)
    return found


def serves_java(text: str, *, has_login: bool) -> bool:
    """True if Java's tools can use the file: a login and certificates are not in the properties of librdkafka alone."""
    keys = {key for _, key, _ in properties(text)}
    return keys.isdisjoint(_PEM_OF_LIBRDKAFKA) and (not has_login or "sasl.jaas.config" in keys)


def _own_section(text: str) -> int | None:
    """Returns the line at which a section of our own settings begins in YAML; None for a client's file."""
    sections = "|".join({name.partition(".")[0] for name in BY_NAME})
    match = re.search(rf"^(?:{sections}):[ \t]*(?:#.*)?$", text, re.MULTILINE)
    return None if match is None else text.count("\n", 0, match.start()) + 1


_PROPERTY = re.compile(r"[a-z][a-z0-9]*(?:\.[a-z0-9]+)+|[a-z]{2,20}")


def _named(key: str) -> str:
    """The key where it may be the name of a property: in the wrong place of a file a secret may be a key."""
    is_spring = key.startswith("spring.kafka.")
    return (
        key
        if is_spring or _PROPERTY.fullmatch(key)
        else "a line whose beginning is not the name of a property (not shown)"
    )


def _ours(key: str, value: str, given: Mapping[str, str]) -> dict[str, str]:
    """The settings for one property of those `given`. Raises ValueError with the end of a sentence."""
    if _is_left_out(key, value):
        return {}
    if key == "sasl.jaas.config":
        return login(value, mechanism=given.get("sasl.mechanism") or given.get("sasl.mechanisms"))
    if key.startswith("ssl."):
        return _tls(key, value, given)
    return {_setting_of(key): value}


def _setting_of(key: str) -> str:
    """Returns the name of the setting. Raises ValueError with the end of a sentence."""
    if key.startswith("spring.kafka."):
        raise ValueError("is a name of Spring: write Kafka's own, such as bootstrap.servers")
    of_librdkafka = f"kafka.{key}"
    setting = NAMES.get(key) or ALIASES.get(of_librdkafka, of_librdkafka)
    if setting not in BY_NAME:
        known = {
            *NAMES,
            *_OF_JAVA_ALONE,
            *(name.removeprefix("kafka.") for name in BY_NAME if name.startswith("kafka.")),
        }
        near = nearest(key.removeprefix("kafka."), known) or ": remove it if the cluster does not need it"
        raise ValueError(f"is not supported by this program{near}")
    return setting


def _is_left_out(key: str, value: str) -> bool:
    """True for what cannot change what a command sees, and for classes of the Java client whose mechanism is supported.

    Raises ValueError with the end of a sentence.
    """
    if key == "sasl.login.callback.handler.class":
        if value == _IAM_BY_TOKENS:
            raise ValueError(
                "is for tokens of IAM: remove it, and write sasl.mechanism=AWS_MSK_IAM with IAMLoginModule"
            )
        return value.startswith(_CALLBACK_HANDLERS)
    if (of_librdkafka := f"kafka.{key}") in SAME_AS_OURS:
        if value.lower() != SAME_AS_OURS[of_librdkafka]:
            raise ValueError(f"must be {SAME_AS_OURS[of_librdkafka]}: no other value is supported")
        return True
    if key == "sasl.client.callback.handler.class":
        return value == _IAM_HANDLER
    return key in HARMLESS or key.startswith(HARMLESS_BEGINNINGS)


def _tls(key: str, value: str, given: Mapping[str, str]) -> dict[str, str]:
    if key.endswith("store.type"):  # Java's own default is JKS, and it reads PKCS12 under that name as well
        if value.upper() not in _STORE_TYPES:
            raise ValueError("is of another type: only PEM and PKCS12 stores can be read")
        return {}
    if key in {"ssl.truststore.location", "ssl.keystore.location"}:
        return _store(key, value, is_pem=_is_pem(given, key.replace("location", "type")))
    if key == "ssl.key.password":
        is_used = _is_pem(given, "ssl.keystore.type") or "ssl.key.location" in given
        return {"kafka.ssl.key.password": value} if is_used else {}
    if key in {"ssl.protocol", "ssl.enabled.protocols"}:
        if not {version.strip().upper() for version in value.split(",")} <= _TLS_VERSIONS:
            raise ValueError("must name TLSv1.2 and TLSv1.3 only: no other version is supported")
        return {}
    if key in _INLINE_PEM:
        file = _INLINE_PEM[key]
        raise ValueError(f"is PEM in place (KIP-651): put it into a file and name that in {file}, with its type PEM")
    return {_setting_of(key): value or "none" if key == "ssl.endpoint.identification.algorithm" else value}


def _is_pem(given: Mapping[str, str], type_key: str) -> bool:
    return given.get(type_key, "").upper() == "PEM"


def _store(key: str, value: str, *, is_pem: bool) -> dict[str, str]:
    setting = f"kafka.{key}"
    return dict.fromkeys(PEM_OF_STORE[setting.removesuffix(".location")] if is_pem else (setting,), value)
