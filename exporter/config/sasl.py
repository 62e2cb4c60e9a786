"""Declares the SASL mechanisms: what each needs, and its login module in Java. A new mechanism is one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

USER = {"username": "kafka.sasl.username", "password": "kafka.sasl.password"}
OAUTH = "kafka.sasl.oauthbearer."
JAAS = "org.apache.kafka.common.security."


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslMechanism:
    name: str
    needs: tuple[str, ...] = ()
    """Settings that must be given."""
    takes: tuple[str, ...] = ()
    """Settings that may be given."""
    needs_tls: bool = False
    python_package: str | None = None
    """Python package that kafka-python imports for it, if it is not installed with kafka-python."""
    extra: str | None = None
    """This project's extra with that package."""
    login_module: str | None = None
    """The Java client's class; None if its properties file is not supported here."""
    login_options: Mapping[str, str] = field(default_factory=dict)
    """The class' options and the corresponding settings."""
    is_for_spark: bool = False
    """True if Spark's Kafka source, a Java client, supports the mechanism."""


MECHANISMS = {
    mechanism.name: mechanism
    for mechanism in (
        SaslMechanism(
            name="PLAIN",
            needs=tuple(USER.values()),
            login_module=f"{JAAS}plain.PlainLoginModule",
            login_options=USER,
            is_for_spark=True,
        ),
        *(
            SaslMechanism(
                name=name,
                needs=tuple(USER.values()),
                login_module=f"{JAAS}scram.ScramLoginModule",
                login_options=USER,
                is_for_spark=True,
            )
            for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        ),
        SaslMechanism(
            name="OAUTHBEARER",
            needs=(f"{OAUTH}token.endpoint.url", f"{OAUTH}client.id", f"{OAUTH}client.secret"),
            takes=(f"{OAUTH}scope", f"{OAUTH}header.urlencode", f"{OAUTH}extensions", "kafka.https.ca.location"),
            login_module=f"{JAAS}oauthbearer.OAuthBearerLoginModule",
            login_options={
                "clientId": f"{OAUTH}client.id",
                "clientSecret": f"{OAUTH}client.secret",
                "scope": f"{OAUTH}scope",
            },
        ),
        SaslMechanism(
            name="GSSAPI", takes=("kafka.sasl.kerberos.service.name",), python_package="gssapi", extra="gssapi"
        ),
        SaslMechanism(
            name="AWS_MSK_IAM",
            needs_tls=True,
            python_package="botocore",
            extra="msk",
            login_module="software.amazon.msk.auth.iam.IAMLoginModule",
        ),
    )
}
"""The mechanisms by name."""

SETTINGS_OF_MECHANISMS = tuple(
    dict.fromkeys(name for mechanism in MECHANISMS.values() for name in (*mechanism.needs, *mechanism.takes))
)
