"""A broker with a listener for every way of speaking and of logging in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from hangbench.kafka.broker import HOST, Broker
from hangbench.kafka.cluster import KafkaCluster, Properties
from hangbench.kafka.ports import free_ports
from tests.certificates import Authority, Issued

USER: Final = "watcher"
PASSWORD: Final = "let-me-in, c4nary ${x} #;=%'"
"""With what files, URLs and shells give a meaning to. Tests look for the word in the middle."""
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_SECURITY: Final = "org.apache.kafka.common.security"
_LOGIN: Final = {
    "PLAIN": f'{_SECURITY}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule required;",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule required;",
    "OAUTHBEARER": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=broker;",
}


@dataclass(slots=True)
class Certificates:
    """The authority that signs the brokers and clients, and what it has signed."""

    authority: Authority
    broker: Issued
    expired: Issued
    other_host: Issued
    client: Issued
    locked_client: Issued
    """Its key needs KEY_PASSWORD."""
    stranger: Issued
    """A client of another authority."""
    key_password: str = field(default="k3y", repr=False)

    @classmethod
    def made_in(cls, folder: Path) -> Certificates:
        authority = Authority(folder)
        return cls(
            authority=authority,
            broker=authority.issue("broker"),
            expired=authority.issue("expired", days=-2),
            other_host=authority.issue("other", hosts=["elsewhere.example"]),
            client=authority.issue("client"),
            locked_client=authority.issue("locked", password="k3y"),
            stranger=Authority(folder / "stranger", "stranger").issue("stranger"),
        )


class SecureCluster(KafkaCluster):
    """One node; `door(name)` is the address of a listener."""

    DOORS: Final = {
        "TLS": "SSL",
        "MUTUAL": "SSL",
        "EXPIRED": "SSL",
        "OTHER": "SSL",
        "LOGIN": "SASL_PLAINTEXT",
        "BOTH": "SASL_SSL",
    }

    def __init__(self, version: str, certificates: Certificates, *, properties: Properties | None = None) -> None:
        super().__init__(version, properties=properties)
        self.certificates = certificates
        self._ports = dict(zip(self.DOORS, free_ports(len(self.DOORS)), strict=True))

    def door(self, name: str) -> str:
        """`host:port` of one listener."""
        return f"{HOST}:{self._ports[name]}"

    def add_scram_users(self) -> None:
        """Once it is running."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            credential = ScramCredentialInfo(mechanism, 4096)
            change = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
            for changed in admin.alter_user_scram_credentials([change]).values():
                changed.result(30)

    def _defaults(self, broker: Broker) -> Properties:
        defaults = dict(super()._defaults(broker))
        doors = [f"{name}://{HOST}:{port}" for name, port in self._ports.items()]
        protocols = [f"{name}:{protocol}" for name, protocol in self.DOORS.items()]
        for key, more in (
            ("listeners", doors),
            ("advertised.listeners", doors),
            ("listener.security.protocol.map", protocols),
        ):
            defaults[key] = ",".join([str(defaults[key]), *more])
        it = self.certificates
        shown = {
            "TLS": it.broker,
            "MUTUAL": it.broker,
            "EXPIRED": it.expired,
            "OTHER": it.other_host,
            "BOTH": it.broker,
        }
        for name, certificate in shown.items():
            prefix = f"listener.name.{name.lower()}"
            defaults[f"{prefix}.ssl.keystore.type"] = "PEM"
            defaults[f"{prefix}.ssl.keystore.location"] = str(certificate.both)
        defaults["listener.name.mutual.ssl.client.auth"] = "required"
        defaults["listener.name.mutual.ssl.truststore.type"] = "PEM"
        defaults["listener.name.mutual.ssl.truststore.location"] = str(it.authority.path)
        for name in ("login", "both"):
            defaults[f"listener.name.{name}.sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
            defaults[f"listener.name.{name}.connections.max.reauth.ms"] = 3_600_000
            for mechanism, login in _LOGIN.items():
                defaults[f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config"] = login
        return defaults
