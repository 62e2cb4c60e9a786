"""Reads the login of a Java client: `sasl.jaas.config`, a login module with its options, as Kafka's own parser does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from exporter.config.sasl import MECHANISMS

_MODULES: Final = {
    mechanism.login_module: mechanism for mechanism in MECHANISMS.values() if mechanism.login_module is not None
}
"""Mechanisms that differ only in their hash share a module."""
_KERBEROS_MODULES: Final = frozenset(
    {"com.sun.security.auth.module.Krb5LoginModule", "com.ibm.security.auth.module.Krb5LoginModule"}
)
_LOGIN: Final = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?i:required)(?=[\s;]|$)(?P<options>.*)", re.DOTALL)
_OPTION: Final = re.compile(
    r"""\s*(?P<name>[\w.$-]+)\s*=\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^\s;"'=]+))"""
    r"(?=[\s;]|$)",
    re.DOTALL,
)
_END: Final = re.compile(r"\s*;?\s*")
_EXTENSION: Final = "extension_"
_BY_PROFILE: Final = "remove it, and name a profile that does this in the environment variable AWS_PROFILE"
_OF_THE_CACHE: Final = "leave it out: the ticket cache that the environment variable KRB5CCNAME names is used"
_INSTEAD_OF_OPTION: Final = {
    "tokenauth": "delegation tokens are not supported",
    "awsProfileName": "remove it, and set the environment variable AWS_PROFILE to it",
    **dict.fromkeys(("awsRoleArn", "awsRoleSessionName", "awsStsRegion"), _BY_PROFILE),
    **dict.fromkeys(("principal", "ticketCache", "useCcache"), _OF_THE_CACHE),
}
_TICKET_CACHE: Final = frozenset({"useTicketCache", "useDefaultCcache"})
_IGNORED_BY_KERBEROS: Final = frozenset(
    {"serviceName", "useKeyTab", "storeKey", "doNotPrompt", "renewTGT", "debug", "refreshKrb5Config", "isInitiator"}
)
"""Options that change nothing for a client with a ticket; the name of the service is a setting."""


def login(value: str, *, mechanism: str | None) -> dict[str, str]:
    """The settings of a login; `mechanism` is the one that the same file names.

    Raises ValueError with the end of a sentence.
    """
    match = _LOGIN.fullmatch(value)
    if match is None or match["module"] not in {*_MODULES, *_KERBEROS_MODULES}:
        raise ValueError(
            "must name PlainLoginModule or ScramLoginModule with username and password, OAuthBearerLoginModule, "
            "IAMLoginModule or Krb5LoginModule"
        )
    module, options = match["module"], _options(match["options"])
    belongs_to = {each.name for each in MECHANISMS.values() if each.login_module == module} or {"GSSAPI"}
    if mechanism and mechanism.upper() in MECHANISMS and mechanism.upper() not in belongs_to:
        known = " or ".join(sorted(belongs_to))
        raise ValueError(
            f"names {module.rpartition('.')[2]}, which is for {known}: sasl.mechanism is {mechanism.upper()}"
        )
    return _kerberos(options) if module in _KERBEROS_MODULES else _of_module(module, options)


def _options(written: str) -> dict[str, str]:
    """The options behind a module, which are the whole rest of the line. Raises ValueError."""
    options: dict[str, str] = {}
    end = 0
    while (match := _OPTION.match(written, end)) is not None:
        text = next(part for part in (match["double"], match["single"], match["bare"]) if part is not None)
        options[match["name"]] = re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
        end = match.end()
    if _END.fullmatch(written, end) is None:
        raise ValueError('has text that is not an option (not shown): it must be one module with NAME="VALUE" ...;')
    return options


def _of_module(module: str, options: Mapping[str, str]) -> dict[str, str]:
    mechanism = _MODULES[module]
    names = mechanism.login_options
    is_oauth = mechanism.name == "OAUTHBEARER"
    extensions = {name: text for name, text in options.items() if is_oauth and name.startswith(_EXTENSION)}
    _refuse(options.keys() - names.keys() - extensions.keys())
    # Kafka 4.1 has properties of their own for the client's id and secret.
    missing = [name for name, ours in names.items() if name not in options and ours in mechanism.needs and not is_oauth]
    if missing:
        raise ValueError(f"must hold {' and '.join(missing)}")
    found = {ours: options[name] for name, ours in names.items() if name in options}
    if extensions:
        pairs = (f"{name.removeprefix(_EXTENSION)}={text}" for name, text in extensions.items())
        found["kafka.sasl.oauthbearer.extensions"] = ",".join(pairs)
    return found


def _refuse(options: set[str]) -> None:
    """Raises ValueError if there are any, with what to do instead."""
    if options:
        raise ValueError(f"has options that are not supported: {', '.join(map(_option_named, sorted(options)))}")


def _option_named(option: str) -> str:
    return f"{option} ({_INSTEAD_OF_OPTION[option]})" if option in _INSTEAD_OF_OPTION else option


def _kerberos(options: Mapping[str, str]) -> dict[str, str]:
    """The ticket cache of this user is used, as with `useTicketCache=true`."""
    if options.get("useKeyTab", "").lower() == "true" or "keyTab" in options:
        raise ValueError(
            "names a key tab, which is not read from here: set the environment variable KRB5_CLIENT_KTNAME to it, or run "
            "kinit -k -t KEYTAB PRINCIPAL, and leave the options useKeyTab and keyTab out"
        )
    for name in sorted(_TICKET_CACHE & options.keys()):
        if options[name].lower() != "true":
            raise ValueError(f"must not have {name} without true ({_OF_THE_CACHE})")
    _refuse(options.keys() - _IGNORED_BY_KERBEROS - _TICKET_CACHE)
    return {"kafka.sasl.kerberos.service.name": options["serviceName"]} if "serviceName" in options else {}
