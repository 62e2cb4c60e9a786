"""Makes certificates of the tests' own authorities, new for each test."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)
_CERTIFICATE_SIGNING = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path
    both: Path
    """Key and certificate in one file, as Java's PEM stores want them."""


class Authority:
    """Signs certificates into a folder."""

    def __init__(
        self, folder: Path, name: str = "authority", *, root: Authority | None = None, is_bare: bool = False
    ) -> None:
        """Its own root, or an intermediate of `root`; with `is_bare` without the fields that RFC 5280 demands."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        public = self._key.public_key()
        signer = self if root is None else root
        certificate = _builder(self._name, signer._name, public, days=1).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=not is_bare
        )
        # Python 3.13 verifies by RFC 5280: an authority names its key, and certificates name the key of their authority.
        self._identifier = None if is_bare else x509.AuthorityKeyIdentifier.from_issuer_public_key(public)
        if not is_bare:
            certificate = certificate.add_extension(_CERTIFICATE_SIGNING, critical=True).add_extension(
                x509.SubjectKeyIdentifier.from_public_key(public), critical=False
            )
        self.certificate = certificate.sign(signer._key, hashes.SHA256())
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *,
        hosts: Sequence[str] = ("127.0.0.1", "localhost"),
        days: int = 1,
        password: str | None = None,
        to: Path | None = None,
    ) -> Issued:
        """A certificate for `hosts`; expired with `days` below 0; its key encrypted with `password`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = _builder(subject, self._name, key.public_key(), days=days).add_extension(names, critical=False)
        if self._identifier is not None:
            builder = builder.add_extension(self._identifier, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        folder = to or self._folder
        issued = Issued(folder / f"{name}.crt", folder / f"{name}.key", folder / f"{name}.pem")
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        public = certificate.public_bytes(serialization.Encoding.PEM)
        issued.certificate.write_bytes(public)
        issued.key.write_bytes(private)
        issued.both.write_bytes(private + public)
        return issued

    def trust_store(self, password: str) -> Path:
        """The authority alone in a PKCS12 file."""
        path = self.path.with_suffix(".trust.p12")
        encryption = serialization.BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"ca", None, None, [self.certificate], encryption))
        return path


def key_store(issued: Issued, password: str) -> Path:
    """Certificate and key in a PKCS12 file."""
    path = issued.certificate.with_suffix(".key.p12")
    key = serialization.load_pem_private_key(issued.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    certificate = x509.load_pem_x509_certificate(issued.certificate.read_bytes())
    encryption = serialization.BestAvailableEncryption(password.encode())
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"client", key, certificate, None, encryption))
    return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.timezone.utc)
    ends = now + days * DAY
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, ends) - DAY)
        .not_valid_after(ends)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
