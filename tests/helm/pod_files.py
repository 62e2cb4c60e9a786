"""The files that a pod would see, laid out in a folder: settings from the rendered ConfigMap, Secrets with real content.

A path that the settings name and no volume brings is not there, as it would not be there in the pod.
"""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from tests.certificates import Authority, key_store
from tests.helm.manifests import Manifest, of_kind

PROGRAM: Final = str(Path(sys.executable).parent / "kafka-transaction-exporter")
ENVIRONMENT: Final = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
"""That of the Dockerfile, and no HOME: the rendered container has no variables of its own."""
PASSWORD: Final = "correct horse"


class Outside:
    """ConfigMaps and Secrets that are not the chart's: what lies under a key of theirs, by the key's name."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        issued = authority.issue("client")
        self._stores = {
            "trust": authority.trust_store(PASSWORD).read_bytes(),
            "key": key_store(issued, PASSWORD).read_bytes(),
        }
        self._pem = {
            "ca.crt": authority.path.read_bytes(),
            ".crt": issued.certificate.read_bytes(),
            ".key": issued.key.read_bytes(),
        }
        self.whole = {
            "revoked-certificates": {"crl.pem": _nobody_revoked(authority)},
            "exporter-settings": {"settings.yaml": b"kafka.bootstrap.servers: a:9092\n"},
            "exporter-fleet": {
                "config.yaml": b"scan.interval: 1m\n",
                "clusters.yaml": b"clusters: {a: {kafka.bootstrap.servers: 'a:1'}, b: {kafka.bootstrap.servers: 'b:1'}}",
            },
            "payments-user": {"password": PASSWORD.encode()},
            "exporter-web": {"web.yaml": b"http_server_config: {}\n"},
        }

    def content(self, key: str) -> bytes:
        """As the key's name promises; anything else is a password or a user."""
        if key.endswith(".p12"):
            return self._stores["trust" if key in ("ca.p12", "truststore.p12") else "key"]
        return next((pem for ending, pem in self._pem.items() if key.endswith(ending)), PASSWORD.encode())


def container_of(pod: Manifest) -> Manifest:
    """The one that the chart makes itself."""
    found: list[Manifest] = [each for each in pod["containers"] if each["name"] in ("exporter", "doctor", "pipeline")]
    (container,) = found
    return container


def lay_out(pod: Manifest, objects: list[Manifest], root: Path, outside: Outside) -> None:
    """Every file that the pod's own container mounts, below `root`."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for mount in container_of(pod)["volumeMounts"]:
        folder = root / mount["mountPath"].lstrip("/")
        folder.mkdir(parents=True)
        for name, content in _contents(volumes[mount["name"]], objects, outside).items():
            is_settings = mount["name"] == "config"
            (folder / name).write_bytes(moved(content.decode(), root).encode() if is_settings else content)


def moved(text: str, root: Path) -> str:
    """The chart's paths for a pod whose `/` is that folder."""
    for top in ("/etc/", "/var/"):
        text = text.replace(top, f"{root}{top}")
    return text


def _contents(volume: Manifest, objects: list[Manifest], outside: Outside) -> dict[str, bytes]:
    if "configMap" in volume:
        name = volume["configMap"]["name"]
        for manifest in of_kind(objects, "ConfigMap"):
            if manifest["metadata"]["name"] == name:
                return {key: text.encode() for key, text in manifest["data"].items()}
        return outside.whole[name]
    if "secret" in volume:
        secret: dict[str, Any] = volume["secret"]
        if "items" not in secret:
            return outside.whole[secret["secretName"]]
        return {item["path"]: outside.content(item["key"]) for item in secret["items"]}
    return {}


def _nobody_revoked(authority: Authority) -> bytes:
    now = dt.datetime.now(dt.timezone.utc)
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.certificate.subject)
    signed = builder.last_update(now).next_update(now + dt.timedelta(days=1)).sign(authority._key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


@contextmanager
def running(words: list[str], log: Path) -> Iterator[None]:
    """A process in a folder that is not its own, ended by SIGTERM as the kubelet does."""
    with log.open("wb") as out, subprocess.Popen(words, cwd="/", env=ENVIRONMENT, stdout=out, stderr=out) as process:
        try:
            yield
        finally:
            process.terminate()
            status = process.wait(timeout=30)
    assert status == 0, log.read_text()
