"""`get`: prints a page of the running exporter. The image has no curl, and the settings have the address.

For a server with a certificate of its own (`publish.web_config_file`), exactly that certificate is trusted, under any name.
"""

from __future__ import annotations

import shlex
import ssl
import sys
from functools import partial
from pathlib import Path
from typing import Final

from exporter.commands.context import Context
from exporter.commands.report import complain
from exporter.commands.status import ExitStatus
from exporter.config.loading import ConfigurationError
from exporter.config.settings import PublishSettings
from exporter.config.values import host_and_port, split_listen_address
from exporter.http.request import Exchange, HttpError
from exporter.http.tls import client_context, system_context
from exporter.web.config_file import WebFile

TIMEOUT_S: Final = 10.0
BYTES_MAX: Final = 1024 * 1024 * 1024
EVERY_ADDRESS: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - to connect to, not to listen on
UNAUTHORIZED: Final = 401


def run(context: Context, publish: PublishSettings) -> int:
    """Prints the page; returns the exit status, 1 for a response that is not a success."""
    url, certificate = context.options.url, None
    if "://" in context.options.path:
        return complain("PATH begins at the exporter's address, which is for --url", ExitStatus.WRONG_USAGE)
    if url is None:
        try:
            certificate = _certificate(publish)
        except ConfigurationError as error:
            return complain("; ".join(error.problems))
        url = address_of(publish, is_tls=certificate is not None)
    page = f"{url.rstrip('/')}/{context.options.path.lstrip('/')}"
    tls = system_context if certificate is None else partial(_context_for, certificate)
    try:
        text = Exchange(page, bytes_max=BYTES_MAX, tls=tls, decode=bytes.decode).wait(TIMEOUT_S)
    except HttpError as error:
        return complain(_why(page, certificate, error))
    sys.stdout.write(text)
    return ExitStatus.ANSWERED


def _certificate(publish: PublishSettings) -> Path | None:
    """The file of the server's own certificate; None without TLS. Raises ConfigurationError."""
    path = publish.web_config_file
    tls = None if path is None else WebFile(Path(path)).current().tls
    return None if tls is None else tls.certificate


def address_of(publish: PublishSettings, *, is_tls: bool) -> str:
    """Returns the address at which a process on the same machine reaches the exporter."""
    host, port = split_listen_address(publish.listen_address)
    host = EVERY_ADDRESS.get(host, host)
    return f"{'https' if is_tls else 'http'}://{host_and_port(host, port)}"


def _context_for(certificate: Path) -> ssl.SSLContext:
    context = client_context(str(certificate))
    context.check_hostname = False
    return context


def _why(page: str, certificate: Path | None, error: HttpError) -> str:
    if error.status == UNAUTHORIZED:
        trusted = "" if certificate is None else f" --cacert {shlex.quote(str(certificate))}"
        curl = f"curl --user NAME{trusted} {page}"
        return f"{page} needs a user and password, which this command does not have: use {curl}"
    if error.status is not None:
        return f"{page}: {error.body.strip() or error}"
    plain = "" if page.startswith("https:") else ", without TLS (publish.web_config_file)"
    return f"{page}: {error}; is the exporter running on this machine{plain}? --url names another one"
