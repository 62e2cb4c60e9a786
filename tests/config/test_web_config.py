"""A corpus of web configuration files: what the toolkit's format allows, and each mistake with its exact message."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from exporter.config.loading import ConfigurationError
from exporter.web.config import RateLimit, web_config
from tests.certificates import Authority

CORPUS = Path(__file__).parent / "web_config"
GOOD = sorted(CORPUS.glob("*.good.yml"))
BAD = sorted(CORPUS.glob("*.bad.yml"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds the certificates that the files name."""
    Authority(tmp_path).issue("server")
    return tmp_path


def problems(path: Path, folder: Path) -> list[str]:
    """Line and sentence of each; file names as in the corpus."""
    used = Path(shutil.copy(path, folder / "web.yml"))
    try:
        web_config(used, used.read_text())
    except ConfigurationError as error:
        return [problem.removeprefix(f"{used}:").replace(str(folder), "FOLDER") for problem in error.problems]
    return []


def test_there_is_a_corpus() -> None:
    """Files of both kinds, and each bad one with its message."""
    assert len(GOOD) >= 4
    assert len(BAD) >= 20
    assert {path.with_suffix(".txt").name for path in BAD} == {path.name for path in CORPUS.glob("*.bad.txt")}


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.name)
def test_a_good_file_is_taken(path: Path, folder: Path) -> None:
    """Everything that the exporter toolkit accepts and the exporter can honour."""
    assert problems(path, folder) == []


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.name)
def test_a_bad_file_is_refused_with_its_message(path: Path, folder: Path) -> None:
    """Line and sentence, as in the file of expected messages."""
    assert problems(path, folder) == path.with_suffix(".txt").read_text().splitlines()


def test_everything_reaches_its_place(folder: Path) -> None:
    """Each key of a file that has them all."""
    path = Path(shutil.copy(CORPUS / "everything.good.yml", folder / "web.yml"))

    read = web_config(path, path.read_text())

    assert read.tls is not None
    assert (read.tls.certificate, read.tls.key, read.tls.client_ca) == (
        folder / "server.crt",
        folder / "server.key",
        folder / "authority.pem",
    )
    assert (read.tls.client_auth, read.tls.client_allowed_sans) == (
        "RequireAndVerifyClientCert",
        frozenset({"prometheus.example"}),
    )
    assert (read.tls.version_min, read.tls.version_max) == ("TLSv1_2", "TLSv1_3")
    assert read.tls.ciphers == ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305")
    assert read.headers == {"Strict-Transport-Security": "max-age=31536000", "X-Frame-Options": "deny"}
    assert list(read.users) == ["prometheus"]
    assert read.rate_limit == RateLimit(interval_ms=1000, burst=20)
    assert "$2b$" not in repr(read)
