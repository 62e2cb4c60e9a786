"""A Java client's properties file, as Kafka's own tools take it."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import KafkaException, Producer

from exporter.config.java_properties import from_java, properties, serves_java
from exporter.config.loading import ConfigurationError


def settings(text: str) -> dict[str, object]:
    return {name: written.value for name, written in from_java("client.properties", text).items()}


def test_the_format_is_java_s() -> None:
    """Comments, continuation lines, escapes and the three separators are read as java.util.Properties reads them."""
    text = "# comment\n! another\n\na=1\nb : two\\\n    parts\nc three\n  d\\=e = \\u0041\\tx\\\\\nempty=\n"

    assert list(properties(text)) == [
        (4, "a", "1"),
        (5, "b", "twoparts"),
        (7, "c", "three"),
        (8, "d=e", "A\tx\\"),
        (9, "empty", ""),
    ]


def test_a_scram_client_s_file_is_understood() -> None:
    """Security is taken over, the login module's quoted password too; the Java client's pace is left out."""
    assert settings(
        """
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
   username="ops" password="a \\\\"quoted\\\\" = secret;";
ssl.truststore.type=PEM
ssl.truststore.location=/etc/ca.pem
ssl.endpoint.identification.algorithm=
default.api.timeout.ms=60000
"""
    ) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "ops",
        "kafka.sasl.password": 'a "quoted" = secret;',
        "kafka.ssl.ca.location": "/etc/ca.pem",
        "kafka.ssl.endpoint.identification.algorithm": "none",
    }


def test_a_pem_key_store_is_key_and_certificate() -> None:
    """Java keeps both in one file; the settings then name that file twice."""
    assert settings("ssl.keystore.location=/me.pem\nssl.keystore.type=pem\nssl.key.password=x") == {
        "kafka.ssl.certificate.location": "/me.pem",
        "kafka.ssl.key.location": "/me.pem",
        "kafka.ssl.key.password": "x",
    }


def test_stores_are_pkcs12_unless_they_are_said_to_be_pem() -> None:
    """Java's own default reads PKCS12 as well; a key's password is the store's there."""
    assert settings(
        "ssl.truststore.location=/t.p12\nssl.truststore.password=one\nssl.keystore.location=/k.p12\n"
        "ssl.keystore.type=PKCS12\nssl.keystore.password=two\nssl.key.password=two"
    ) == {
        "kafka.ssl.truststore.location": "/t.p12",
        "kafka.ssl.truststore.password": "one",
        "kafka.ssl.keystore.location": "/k.p12",
        "kafka.ssl.keystore.password": "two",
    }


def test_client_credentials_are_understood() -> None:
    """Java's login module for OAUTHBEARER, its handler, and where tokens come from."""
    module = "org.apache.kafka.common.security.oauthbearer"
    assert settings(
        f"sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=https://idp/token\n"
        "sasl.oauthbearer.header.urlencode=true\n"
        f"sasl.login.callback.handler.class={module}.OAuthBearerLoginCallbackHandler\n"
        f'sasl.jaas.config={module}.OAuthBearerLoginModule required clientId="me" clientSecret="x y" scope="kafka";'
    ) == {
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://idp/token",
        "kafka.sasl.oauthbearer.client.id": "me",
        "kafka.sasl.oauthbearer.client.secret": "x y",
        "kafka.sasl.oauthbearer.scope": "kafka",
        "kafka.sasl.oauthbearer.header.urlencode": "true",
    }


JAAS = "org.apache.kafka.common.security"
LOGIN = 'username="svc" password="secret"'
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"
VENDORS = {
    "Confluent Cloud": (
        """
bootstrap.servers=a:1
security.protocol=SASL_SSL
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username='KEY' password='SECRET';
sasl.mechanism=PLAIN
client.dns.lookup=use_all_dns_ips
session.timeout.ms=45000
acks=all
client.id=ccloud-java-client-0000
schema.registry.url=https://sr
basic.auth.credentials.source=USER_INFO
basic.auth.user.info=K:S
""",
        {
            "kafka.bootstrap.servers": "a:1",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "KEY",
            "kafka.sasl.password": "SECRET",
            "kafka.client.id": "ccloud-java-client-0000",
        },
    ),
    "Amazon MSK with IAM": (
        """
security.protocol=SASL_SSL
sasl.mechanism=AWS_MSK_IAM
sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler
""",
        {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "AWS_MSK_IAM"},
    ),
    "a consumer": (
        """
bootstrap.servers=a:1
group.id=g
enable.auto.commit=false
auto.offset.reset=earliest
isolation.level=read_committed
key.deserializer=org.apache.kafka.common.serialization.StringDeserializer
""",
        {"kafka.bootstrap.servers": "a:1"},
    ),
    "Kafka Streams with a schema registry": (
        """
bootstrap.servers=a:1
application.id=orders
processing.guarantee=exactly_once_v2
num.stream.threads=4
default.key.serde=org.apache.kafka.common.serialization.Serdes$StringSerde
state.dir=/var/lib/orders
specific.avro.reader=true
auto.register.schemas=false
spring.json.trusted.packages=*
""",
        {"kafka.bootstrap.servers": "a:1"},
    ),
    "TLS versions": (
        "security.protocol=SSL\nssl.enabled.protocols=TLSv1.2,TLSv1.3\nssl.protocol=TLSv1.2",
        {"kafka.security.protocol": "SSL"},
    ),
    "Kafka 4.1's OAuth": (
        """
sasl.mechanism=OAUTHBEARER
sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
sasl.oauthbearer.token.endpoint.url=https://idp/token
sasl.oauthbearer.client.credentials.client.id=me
sasl.oauthbearer.client.credentials.client.secret=s3cret
sasl.oauthbearer.scope=kafka
""",
        {
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.token.endpoint.url": "https://idp/token",
            "kafka.sasl.oauthbearer.client.id": "me",
            "kafka.sasl.oauthbearer.client.secret": "s3cret",
            "kafka.sasl.oauthbearer.scope": "kafka",
        },
    ),
    "Confluent Cloud's OAuth": (
        """
sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \\
  clientId="me" clientSecret="s" extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1";
""",
        {
            "kafka.sasl.oauthbearer.client.id": "me",
            "kafka.sasl.oauthbearer.client.secret": "s",
            "kafka.sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-1",
        },
    ),
    "Kerberos with the ticket cache": (
        """
sasl.mechanism=GSSAPI
sasl.kerberos.kinit.cmd=/usr/bin/kinit
sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true serviceName="k";
""",
        {"kafka.sasl.mechanism": "GSSAPI", "kafka.sasl.kerberos.service.name": "k"},
    ),
}


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_file_as_its_vendor_hands_it_out_is_understood(vendor: str) -> None:
    """What it says of the login is used, and what cannot change what a command sees is left out."""
    text, expected = VENDORS[vendor]

    assert settings(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            'sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="ops";',
            "not supported: awsProfileName (remove it, and set the environment variable AWS_PROFILE to it)",
        ),
        (
            f"sasl.jaas.config={JAAS}.scram.ScramLoginModule required username=t password=h tokenauth=true;",
            "has options that are not supported: tokenauth (delegation tokens are not supported)",
        ),
        (
            f"sasl.jaas.config={JAAS}.oauthbearer.OAuthBearerLoginModule required oauth.client.id=team-a;",
            "has options that are not supported: ",
        ),
        (
            'sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/x";',
            "set the environment variable KRB5_CLIENT_KTNAME to it",
        ),
        ("ssl.protocol=TLSv1", "ssl.protocol must name TLSv1.2 and TLSv1.3 only"),
        (
            "ssl.truststore.certificates=-----BEGIN CERTIFICATE-----",
            "put it into a file and name that in ssl.truststore.location, with its type PEM",
        ),
        (
            "ssl.truststore.type=BKS",
            "client.properties:1: ssl.truststore.type is of another type: only PEM and PKCS12 stores can be",
        ),
        (
            "\nsasl.login.callback.handler.class=x",
            "client.properties:2: sasl.login.callback.handler.class is not supported by this program: remove it if",
        ),
        (
            "# ours\nscan:  # s\n  interval: 30s\nkafka:\n  bootstrap.servers: a:1\n",
            "client.properties:2: this is a file of this program's settings: give it as --config.file",
        ),
        ("security.protcol=SSL", "security.protcol is not supported by this program; did you mean security.protocol?"),
        ("ssl.truststor.location=/a", "; did you mean ssl.truststore.location?"),
        ("kafka.ssl.ca.location=/a", "; did you mean ssl.ca.location?"),
        ("ssl.keystor.type=PEM", "; did you mean ssl.keystore.type?"),
        ("ssl.key.pasword=x", "; did you mean ssl.key.password?"),
        ("sasl.jas.config=x", "; did you mean sasl.jaas.config?"),
        ("sasl.jaas.config=com.sun.Krb5LoginModule required;", "must name PlainLoginModule or ScramLoginModule"),
        (
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=a;",
            "must hold password",
        ),
        (
            f"sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={JAAS}.plain.PlainLoginModule required {LOGIN};",
            "names PlainLoginModule, which is for PLAIN: sasl.mechanism is SCRAM-SHA-256",
        ),
        (
            f"sasl.mechanism=GSSAPI\nsasl.jaas.config={JAAS}.scram.ScramLoginModule required {LOGIN};",
            "ScramLoginModule,",
        ),
        (f"sasl.mechanism=PLAIN\nsasl.jaas.config={KERBEROS};", "names Krb5LoginModule, which is for GSSAPI:"),
        (
            f'sasl.jaas.config={KERBEROS} useTicketCache=true principal="me@REALM" ticketCache="/tmp/x";',
            "not supported: principal (leave it out: the ticket cache that the environment variable KRB5CCNAME names is",
        ),
        (
            f"sasl.jaas.config={KERBEROS} useTicketCache=false;",
            "must not have useTicketCache without true (leave it out:",
        ),
        (f"sasl.jaas.config={JAAS}.plain.PlainLoginModule required {LOGIN} x-y=z;", "not supported: x-y"),
        (
            "sasl.login.callback.handler.class=software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
            "write sasl.mechanism=AWS_MSK_IAM",
        ),
        ("enable.ssl.certificate.verification=false", "must be true: no other value is supported"),
    ],
)
def test_what_is_not_supported_is_refused(text: str, problem: str) -> None:
    """A security property that the exporter cannot honour is an error with its line, and no secret in it."""
    with pytest.raises(ConfigurationError, match=re.escape(problem)):
        from_java("client.properties", text)


def test_a_line_ends_where_java_ends_it() -> None:
    """A password may have characters at which Python ends a line, and Java does not."""
    text = "a=x\x0by\x0cz\x85v\u2028w\r\nb=1\rc=2"

    assert list(properties(text)) == [(1, "a", "x\x0by\x0cz\x85v\u2028w"), (2, "b", "1"), (3, "c", "2")]


@pytest.mark.parametrize(
    "name",
    [
        *("message.timeout.ms", "partitioner", "request.required.acks", "batch.num.messages", "fetch.wait.max.ms"),
        *("enable.auto.offset.store", "log.connection.close", "max.in.flight", "topic.blacklist", "builtin.features"),
        *("sticky.partitioning.linger.ms", "socket.max.fails", "queue.buffering.backpressure.threshold"),
    ],
)
def test_properties_that_only_clients_of_librdkafka_have_are_left_out(name: str) -> None:
    """An owner gives the file of the application, and librdkafka knows each of these."""
    said = ""
    try:
        Producer({name: "\x01"})
    except KafkaException as refused:
        said = str(refused)
    assert "No such configuration property" not in said
    assert from_java("client.properties", f"{name}=1") == {}


@pytest.mark.parametrize(
    ("text", "has_login", "expected"),
    [
        ("bootstrap.servers=b:1", False, True),
        ("sasl.jaas.config=x required;\nsasl.mechanism=PLAIN", True, True),
        ("sasl.username=u\nsasl.password=p\nsasl.mechanisms=PLAIN", True, False),
        ("security.protocol=SSL\nssl.ca.location=ca.pem", False, False),
        ("security.protocol=SSL\nssl.truststore.location=ca.pem\nssl.truststore.type=PEM", False, True),
    ],
)
def test_whether_java_s_tools_can_use_a_file(text: str, *, has_login: bool, expected: bool) -> None:
    """A login or certificates under librdkafka's names alone are nothing to them."""
    assert serves_java(text, has_login=has_login) is expected


@pytest.mark.parametrize(
    "options",
    [
        'username="svc" password="c0rrect horse;',
        'username="svc" password="c0rrect"horse;',
        'username="svc" password="c0rrect" horse;',
        "username=svc password=;",
        "username=svc password=c0rrect=horse;",
        "username=svc password='c0rrect's horse';",
        f"{LOGIN}; {JAAS}.plain.PlainLoginModule required {LOGIN};",
        f"{LOGIN}; c0rrect",
    ],
)
def test_text_of_a_login_that_is_not_understood_is_refused(options: str) -> None:
    """Java refuses it too; a part of it would be another password. It is not shown."""
    with pytest.raises(ConfigurationError) as failure:
        from_java("client.properties", f"sasl.jaas.config={JAAS}.plain.PlainLoginModule required {options}")

    (problem,) = failure.value.problems
    assert "sasl.jaas.config has text that is not an option (not shown)" in problem
    assert "c0rrect" not in problem


@pytest.mark.parametrize("flag", ["required", "REQUIRED", "Required"])
def test_the_control_flag_may_be_in_any_case(flag: str) -> None:
    """Kafka's own parser takes it so, and escapes in quotes."""
    module = f"{JAAS}.plain.PlainLoginModule"
    given = settings(f'sasl.jaas.config={module} {flag} username = \'a\' password="b\\\\"c;" ;\n')
    assert given == {"kafka.sasl.username": "a", "kafka.sasl.password": 'b"c;'}
