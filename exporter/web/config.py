"""Reads `--web.config.file` in the exporter-toolkit's format: TLS, client certificates, basic auth, headers, rate limit.

Options of the toolkit that this server does not support are refused with an error, never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from exporter.config.loading import ConfigurationError, composed, value_of
from exporter.config.values import duration_ms, switch
from exporter.files import contents

ClientAuth = Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"]

VERSIONS = {"TLS10": "TLSv1", "TLS11": "TLSv1_1", "TLS12": "TLSv1_2", "TLS13": "TLSv1_3"}
"""Go's names -> those of ssl.TLSVersion."""
CIPHERS = {
    f"TLS_ECDHE_{key}_WITH_{go}": f"ECDHE-{key}-{openssl}"
    for key in ("RSA", "ECDSA")
    for go, openssl in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
"""Go's names -> OpenSSL's; the secure suites of TLS 1.2. Those of 1.3 cannot be chosen, as in Go."""
HEADERS = frozenset(
    {
        "Strict-Transport-Security",
        "X-Content-Type-Options",
        "X-Frame-Options",
        "X-XSS-Protection",
        "Content-Security-Policy",
    }
)
_BCRYPT = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTls:
    """The TLS side of the web server."""

    certificate: Path
    key: Path
    client_auth: ClientAuth
    client_ca: Path | None
    client_allowed_sans: frozenset[str]
    version_min: str
    """A name of ssl.TLSVersion."""
    version_max: str | None
    ciphers: tuple[str, ...]
    """OpenSSL's names; empty for its own choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """`burst` requests at once, and one more after each interval."""

    interval_ms: int
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WebConfig:
    """The whole file."""

    tls: ServerTls | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """User -> bcrypt hash."""
    rate_limit: RateLimit | None = None


def web_config(path: Path, text: str) -> WebConfig:
    """The file at `path`, whose relative paths start in its folder. Raises ConfigurationError with every problem."""
    reader = _Reader(path)
    found = reader.file(text)
    if reader.problems:
        raise ConfigurationError(reader.problems, files=reader.files)
    return found


class _Reader:
    """Reads nodes, and collects problems with their lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []
        self.files: list[Path] = []

    def file(self, text: str) -> WebConfig:
        try:
            root = composed(str(self.path), text)
        except ConfigurationError as error:
            self.problems += error.problems
            return WebConfig()
        if root is None:
            return WebConfig()
        known = {"tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"}
        parts = self.mapping(root, "the file", known)
        return WebConfig(
            tls=self.tls(parts["tls_server_config"]) if "tls_server_config" in parts else None,
            headers=self.http(parts["http_server_config"]) if "http_server_config" in parts else {},
            users=self.users(parts["basic_auth_users"]) if "basic_auth_users" in parts else {},
            rate_limit=self.rate_limit(parts["rate_limit"]) if "rate_limit" in parts else None,
        )

    def tls(self, node: yaml.Node) -> ServerTls | None:
        known = {
            *("cert_file", "key_file", "client_auth_type", "client_ca_file", "client_allowed_sans"),
            *("min_version", "max_version", "cipher_suites", "prefer_server_cipher_suites"),
        }
        cannot = {
            "cert": "is not supported: put the certificate into a file and name it as cert_file",
            "key": "is not supported: put the key into a file and name it as key_file",
            "client_ca": "is not supported: put the authority into a file and name it as client_ca_file",
            "curve_preferences": "is not supported: OpenSSL's own choice is used",
        }
        parts = self.mapping(node, "tls_server_config", known, cannot)
        certificate, key = self.a_path(parts, "cert_file"), self.a_path(parts, "key_file")
        for name, value in (("cert_file", certificate), ("key_file", key)):
            if value is None and name not in parts:
                self.problem(node, f"tls_server_config.{name} is missing")
        client_ca = self.a_path(parts, "client_ca_file")
        auth = self.client_auth(parts.get("client_auth_type"))
        sans = frozenset(self.texts(parts, "client_allowed_sans"))
        if auth == "NoClientCert" and client_ca is not None:
            self.problem(parts["client_ca_file"], "client_ca_file is of no use while client_auth_type is NoClientCert")
        if auth != "NoClientCert" and client_ca is None:
            self.problem(node, f"client_auth_type {auth} needs client_ca_file")
        if sans and auth != "RequireAndVerifyClientCert":
            self.problem(
                parts["client_allowed_sans"], "client_allowed_sans needs client_auth_type RequireAndVerifyClientCert"
            )
        self.one(parts, "prefer_server_cipher_suites", switch, None)
        version_min = self.one(parts, "min_version", _version, "TLSv1_2")
        version_max = self.one(parts, "max_version", _version, None)
        if version_max is not None and version_max < version_min:
            self.problem(parts["max_version"], "max_version is lower than min_version")
        ciphers = tuple(self.cipher(name, parts) for name in self.texts(parts, "cipher_suites"))
        if certificate is None or key is None:
            return None
        return ServerTls(
            certificate=certificate,
            key=key,
            client_auth=auth,
            client_ca=client_ca,
            client_allowed_sans=sans,
            version_min=version_min,
            version_max=version_max,
            ciphers=tuple(filter(None, ciphers)),
        )

    def client_auth(self, node: yaml.Node | None) -> ClientAuth:
        value = "" if node is None else str(value_of(node))
        if node is None or not value:
            return "NoClientCert"
        known: tuple[ClientAuth, ...] = get_args(ClientAuth)
        if value in known:
            return known[known.index(value)]
        if value in {"RequestClientCert", "RequireAnyClientCert"}:
            self.problem(node, f"client_auth_type {value} takes certificates unverified, which is not supported")
        else:
            self.problem(node, f"client_auth_type must be one of {', '.join(known)}, not {value}")
        return "NoClientCert"

    def cipher(self, name: str, parts: Mapping[str, yaml.Node]) -> str:
        if name not in CIPHERS:
            self.problem(
                parts["cipher_suites"], f"cipher suite {name} is not supported: {', '.join(sorted(CIPHERS))} are"
            )
        return CIPHERS.get(name, "")

    def http(self, node: yaml.Node) -> Mapping[str, str]:
        parts = self.mapping(node, "http_server_config", {"http2", "headers"})
        if "http2" in parts and str(value_of(parts["http2"])).lower() != "false":
            self.problem(parts["http2"], "http2 is not supported: leave it out or set it to false")
        if "headers" not in parts:
            return {}
        headers = self.mapping(parts["headers"], "headers", set(HEADERS))
        found = {}
        for name, value in headers.items():
            text = str(value_of(value))
            if not text.isascii() or not text.isprintable():
                self.problem(value, f"header {name} must be printable ASCII")
            found[name] = text
        return found

    def users(self, node: yaml.Node) -> Mapping[str, bytes]:
        if not isinstance(node, yaml.MappingNode):
            self.problem(node, "basic_auth_users must be a mapping of users and bcrypt hashes")
            return {}
        found = {}
        for key, value in node.value:
            name, hashed = str(key.value), str(value_of(value))
            if ":" in name or not name:
                self.problem(key, "a user's name is not empty and holds no colon")
            elif name in found:
                self.problem(key, f"user {name} is there twice")
            elif _BCRYPT.fullmatch(hashed) is None:
                self.problem(value, f"the password of {name} must be a bcrypt hash, as htpasswd -nBC 10 makes it")
            found[name] = hashed.encode()
        return found

    def rate_limit(self, node: yaml.Node) -> RateLimit | None:
        parts = self.mapping(node, "rate_limit", {"interval", "burst"})
        interval_ms = self.one(parts, "interval", duration_ms, 0)
        burst = self.one(parts, "burst", _positive, 1)
        if interval_ms <= 0:
            self.problem(node, "rate_limit.interval must be a duration longer than nothing")
            return None
        return RateLimit(interval_ms=interval_ms, burst=burst)

    def mapping(
        self, node: yaml.Node, what: str, known: set[str], cannot: Mapping[str, str] | None = None
    ) -> dict[str, yaml.Node]:
        """Key -> node, of the known keys; a null value counts as absent, as in Go."""
        if not isinstance(node, yaml.MappingNode):
            self.problem(node, f"{what} must be a mapping")
            return {}
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in found:
                self.problem(key, f"{name} is there twice")
            elif cannot is not None and name in cannot:
                self.problem(key, f"{name} {cannot[name]}")
            elif name not in known:
                self.problem(key, f"{name} is not known in {what}")
            elif value.tag != "tag:yaml.org,2002:null":
                found[name] = value
        return found

    def a_path(self, parts: Mapping[str, yaml.Node], name: str) -> Path | None:
        """Relative to the folder of the file."""
        if name not in parts:
            return None
        value = value_of(parts[name])
        if not isinstance(value, str) or not value:
            self.problem(parts[name], f"{name} must be the path of a file")
            return None
        path = self.path.parent / value
        self.files.append(path)
        try:
            contents(path)
        except OSError as error:
            self.problem(parts[name], f"{name} names {path}, which cannot be read: {error.strerror}")
        return path

    def texts(self, parts: Mapping[str, yaml.Node], name: str) -> list[str]:
        if name not in parts:
            return []
        value = value_of(parts[name])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.problem(parts[name], f"{name} must be a list of strings")
            return []
        return value

    def one(self, parts: Mapping[str, yaml.Node], name: str, parse: Callable[[Any], Any], default: Any) -> Any:
        if name not in parts:
            return default
        try:
            return parse(value_of(parts[name]))
        except ValueError as error:
            self.problem(parts[name], f"{name} {error}")
            return default

    def problem(self, node: yaml.Node, sentence: str) -> None:
        self.problems.append(f"{self.path}:{node.start_mark.line + 1}: {sentence}")


def _version(value: Any) -> str:
    if not isinstance(value, str) or value not in VERSIONS:
        raise ValueError(f"must be one of {', '.join(VERSIONS)}")
    return VERSIONS[value]


def _positive(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("must be a whole number of 1 or more")
    return value
