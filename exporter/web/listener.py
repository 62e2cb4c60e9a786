"""Binds the listening socket for `host:port`; errors of the operating system become one clear sentence."""

from __future__ import annotations

import errno
import socket

from exporter.config.values import host_and_port, split_listen_address
from exporter.web.connections import ConnectionLimits, Listener

_BACKLOG = 32

_REASONS = {
    errno.EADDRINUSE: "the port is in use by another program",
    errno.EACCES: "this user may not listen on that port",
    errno.EADDRNOTAVAIL: "this machine has no such address",
}


class WebServerError(Exception):
    """The web server cannot start; the message is one sentence for the operator."""


def listen(listen_address: str, limits: ConnectionLimits, option: str) -> Listener:
    """A listening socket: the kernel queues connections from here on. An empty host means IPv6 and IPv4.

    `option` is the one that the command has for the address.
    """
    try:
        host, port = split_listen_address(listen_address)
    except ValueError as error:
        raise WebServerError(f"The web listen address {listen_address!r} {error}.") from error
    try:
        family, address = _resolve(host, port)
        return _bound(family, address, limits, both_families=not host)
    except OSError as error:
        reason = _REASONS.get(error.errno or 0) if not isinstance(error, socket.gaierror) else "the host is not known"
        hint = f"; choose another one with {option} HOST:PORT" if error.errno == errno.EADDRINUSE else ""
        raise WebServerError(
            f"Cannot listen on {listen_address}: {reason or error.strerror or error}{hint}."
        ) from error


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    if not host:
        return (socket.AF_INET6, ("::", port)) if _has_ipv6() else (socket.AF_INET, ("0.0.0.0", port))  # noqa: S104  # asked for
    flags = socket.AI_PASSIVE
    family, _, _, _, (ip, *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)[0]
    return family, (str(ip), port)


def _has_ipv6() -> bool:
    if not socket.has_dualstack_ipv6():
        return False
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


def _bound(
    family: socket.AddressFamily, address: tuple[str, int], limits: ConnectionLimits, *, both_families: bool
) -> Listener:
    listener = Listener(family, limits)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both_families)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def url_of(listener: Listener, scheme: str) -> str:
    """Returns a URL that works on this machine."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104  # compared, not bound
        host = "localhost"
    return f"{scheme}://{host_and_port(host, port)}"
