"""Parses written values: each parser takes what YAML, an environment variable or a flag contains.

A parser raises ValueError with the end of a sentence: "must be ...". A `SettingType` adds the JSON schema of the value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from exporter.patterns import compile_bounded, meant_by_glob
from exporter.storage.location import parse as parse_location

Parser = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class SettingType:
    """The type of a setting."""

    parse: Parser
    schema: Mapping[str, Any] = field(hash=False)
    """JSON schema of the value in YAML."""


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)|0")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(B|kB|MB|GB|TB)")
_UNIT_BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_NUMBER = re.compile(r"[1-9]\d{,17}")
_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.%]+)\]|(?P<host>[^\[\]:,\s]+)):(?P<port>\d{1,5})")
_LISTEN_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.%\w]+)\]|(?P<host>[^\[\]:,\s]*)):(?P<port>\d{1,5})")
PORT_MAX = 65535
_MOST = 2**62


def duration_ms(value: Any) -> int:
    """`30s`, `5m`, `500ms`, `1h`, `2d`; in whole milliseconds.

    A number without a unit is refused, except 0: `history.retention_age: 30` would keep 30 s of a history.
    """
    written = _without_spaces(value)
    match = _DURATION.fullmatch(written)
    if match is None:
        raise ValueError(f"must be a duration such as 500ms, 30s, 5m or 1h{_with_units(written, 's', 'm', 'h', 'd')}")
    return _whole(float(match[1]) * _UNIT_MS[match[2]]) if match[2] else 0


def _without_spaces(value: Any) -> str:
    return "" if isinstance(value, bool) else str(value).strip()


def _with_units(written: str, *units: str) -> str:
    """The end of a message about a number that lacks its unit; empty for anything else."""
    if not _NUMBER.fullmatch(written):
        return ""
    *others, last = (f"{written}{unit}" for unit in units)
    return f": {written} has no unit, write {', '.join(others)} or {last}"


def _whole(number: float) -> int:
    if number > _MOST:
        raise ValueError("is too large")
    return int(number)


def positive_duration_ms(value: Any) -> int:
    """Parses a duration above zero to milliseconds."""
    milliseconds = duration_ms(value)
    if milliseconds <= 0:
        raise ValueError("must be longer than 0")
    return milliseconds


def size_bytes(value: Any) -> int:
    """`500MB`, `1GB`, `1.5TB`; more than 0. Powers of ten. A number without a unit is refused, as for a duration."""
    written = _without_spaces(value)
    match = _SIZE.fullmatch(written)
    size = 0 if match is None else _whole(float(match[1]) * _UNIT_BYTES[match[2]])
    if size <= 0:
        raise ValueError(f"must be a size such as 500MB or 2GB{_with_units(written, 'B', 'MB', 'GB')}")
    return size


def java_size(value: str) -> str:
    """`512m`, `2g`: a size of memory as Java writes it."""
    if not re.fullmatch(r"[1-9][0-9]*[kmgtKMGT]", value):
        raise ValueError(f"must be a size such as 512m or 2g{_with_units(value, 'm', 'g')}")
    return value


def text(value: Any) -> str:
    """Parses a string; numbers are taken as written."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be a string")  # noqa: TRY004 - a parser's one error
    return str(value)


def path(value: Any) -> str | None:
    """Parses the path of a file; an empty one is none, as for `name`."""
    written = text(value)
    if "\0" in written:
        raise ValueError("must be a path, which has no null character")
    return written or None


def state_path(value: Any) -> str:
    """Parses `auto`, `none`, or the path of a file whose name can be changed for one cluster."""
    written = path(value)
    if written is None or Path(written).name in {"", ".."}:
        raise ValueError("must be the path of a file, `none` or `auto`")
    return written


def place(value: Any) -> str | None:
    """Parses a path, or a URI of a disk or an object store; an empty one is none, as for `name`."""
    written = path(value)
    if written is not None:
        parse_location(written)
    return written


def name(value: Any) -> str | None:
    """A string; an empty one is none, because a template may have nothing to put there."""
    return text(value) or None


def switch(value: Any) -> bool:
    """`true` or `false`, as a YAML value or as text."""
    if str(value).lower() not in {"true", "false"}:
        raise ValueError("must be true or false")
    return str(value).lower() == "true"


def whole_number(minimum: int, maximum: int) -> Parser:
    """Integers from `minimum` to `maximum`."""

    def parse(value: Any) -> int:
        written = str(value).strip()
        if isinstance(value, bool) or not re.fullmatch(r"-?\d+", written) or not minimum <= int(written) <= maximum:
            raise ValueError(f"must be a whole number from {minimum} to {maximum}")
        return int(written)

    return parse


def bootstrap_servers(value: Any) -> tuple[tuple[str, int], ...]:
    """`host:port[,host:port...]`, or a YAML list of such; IPv6 addresses in brackets."""
    if "@" in str(value):  # not shown: the part before it is a user and a password
        raise ValueError("must be host:port[,host:port...]; a user and a password have settings of their own")
    written = [str(part) for part in value] if isinstance(value, list) else str(value).split(",")
    servers = []
    for server in (part.strip() for part in written if part.strip()):
        match = _ADDRESS.fullmatch(server)
        if match is None:
            raise ValueError(f"must be host:port[,host:port...]; {server!r} is not")
        if not 0 < int(match["port"]) <= PORT_MAX:
            raise ValueError(f"must have ports from 1 to {PORT_MAX}; {server!r} has another")
        servers.append((match["v6"] or match["host"], int(match["port"])))
    if not servers:
        raise ValueError("must name at least one broker as host:port")
    return tuple(servers)


def url(value: Any) -> str:
    """Parses a URL without user and password, because URLs are shown."""
    written = text(value)
    if "@" in urlsplit(written).netloc:
        raise ValueError("must be a URL without a user and a password: those have settings of their own")
    return written


def endpoint_url(value: Any) -> str:
    """Parses the URL of an endpoint to which requests are sent."""
    written = url(value)
    if urlsplit(written).scheme not in {"http", "https"} or not urlsplit(written).netloc:
        raise ValueError("must begin with http:// or https:// and a host")
    return written


def page_url(value: Any) -> str | None:
    """Parses the address of a page, without the last slash; an empty one is none, as for `name`."""
    written = url(value).rstrip("/")
    if re.search(r"\s", written):
        raise ValueError("must be a URL without a blank: in a link it would end there")
    if urlsplit(written).query or urlsplit(written).fragment:
        raise ValueError("must be a URL without a query: pages and alerts show it, and a token in it")
    if written and (urlsplit(written).scheme not in {"http", "https"} or not urlsplit(written).netloc):
        raise ValueError("must begin with http:// or https:// and a host")
    return written or None


def pairs(value: Any) -> tuple[tuple[str, str], ...]:
    """`key=value[,key=value...]`, in order."""
    written = [part.strip() for part in str(value).split(",") if part.strip()]
    found = tuple((key.strip(), rest.strip()) for key, _, rest in (part.partition("=") for part in written))
    if not found or not all(key and rest for key, rest in found):
        raise ValueError("must be key=value[,key=value...]")
    return found


def listen_address(value: Any) -> str:
    """`host:port`, `:port` for every address, IPv6 in brackets."""
    written = str(value).strip()
    split_listen_address(written)
    return written


def host_and_port(host: str, port: int) -> str:
    """`host:port`, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_listen_address(text: str) -> tuple[str, int]:
    """Host and port; the host is empty for every address. Raises ValueError."""
    match = _LISTEN_ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError("must be host:port, [ipv6]:port, or :port for every address")
    if int(match["port"]) > PORT_MAX:
        raise ValueError(f"must have a port up to {PORT_MAX}")
    return match["v6"] or match["host"], int(match["port"])


def groups(value: Any) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """A list of {name, match}, or the same as JSON: (name, pattern) in order."""
    written = value
    if isinstance(value, str):
        try:
            written = json.loads(value)
        except ValueError as error:
            raise ValueError(_GROUPS_WANTED) from error
    if not isinstance(written, list):
        raise ValueError(_GROUPS_WANTED)  # noqa: TRY004 - a parser's one error
    found: dict[str, re.Pattern[str]] = {}
    for group in written:
        if not isinstance(group, dict):
            raise ValueError(_GROUPS_WANTED)  # noqa: TRY004 - a parser's one error
        if unknown := sorted(map(repr, group.keys() - _GROUP_KEYS)):
            raise ValueError(f"{_GROUPS_WANTED}; {', '.join(unknown)} is not a key of a group")
        if missing := sorted(_GROUP_KEYS - group.keys()):
            raise ValueError(f"{_GROUPS_WANTED}; a group has no {' and no '.join(missing)}")
        name, match = group["name"], group["match"]
        if not isinstance(name, str) or _GROUP_NAME.fullmatch(name) is None:
            raise ValueError(f"must have names of letters, digits, `.`, `_` and `-`; {name!r} is not one")
        if name in found:
            raise ValueError(f"must name each group once; {name!r} occurs twice")
        found[name] = _pattern(match, f" of {name!r}")
    return tuple(found.items())


def patterns(value: Any) -> tuple[re.Pattern[str], ...]:
    """A list of regular expressions, as JSON in a variable or flag, or one regular expression; an empty one is no list."""
    if isinstance(value, str) and not value.strip():
        return ()
    written = [value] if isinstance(value, str) else value
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError):  # `[a-z]+` is an expression
            written = json.loads(value)
    if not isinstance(written, list) or not all(isinstance(pattern, str) for pattern in written):
        raise ValueError('must be a list of regular expressions such as ["orders", "payments-.*"], or one of them')
    if "" in written:
        raise ValueError("must have regular expressions; an empty one matches nothing")
    return tuple(_pattern(pattern, "") for pattern in written)


def some_patterns(value: Any) -> tuple[re.Pattern[str], ...]:
    """`patterns`, of which an empty list would match nothing."""
    found = patterns(value)
    if not found:
        raise ValueError("must have at least one regular expression: leave it out to match everything")
    return found


def _pattern(text: str, of: str) -> re.Pattern[str]:
    try:
        return compile_bounded(text)
    except (re.error, TypeError, RecursionError) as error:
        meant = meant_by_glob(str(text))
        hint = "" if meant is None else f"; for all such names write {meant!r}"
        raise ValueError(f"must have regular expressions; {text!r}{of} is not one: {error}{hint}") from error
    except ValueError as error:
        raise ValueError(f"must have regular expressions that are quick to match; {text!r}{of}: {error}") from error


_GROUPS_WANTED = 'must be a list such as [{"name": "orders", "match": "orders-.*"}]'
_GROUP_KEYS = {"name", "match"}
_GROUP_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_GROUP_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": sorted(_GROUP_KEYS),
    "properties": {"name": {"type": "string", "pattern": f"^{_GROUP_NAME.pattern}$"}, "match": {"type": "string"}},
}
_DURATION_SCHEMA = {"type": ["string", "number"], "pattern": f"^({_DURATION.pattern})$", "minimum": 0, "maximum": 0}
DURATION = SettingType(duration_ms, _DURATION_SCHEMA)
POSITIVE_DURATION = SettingType(positive_duration_ms, _DURATION_SCHEMA)
SIZE = SettingType(size_bytes, {"type": "string", "pattern": f"^{_SIZE.pattern}$"})
TEXT = SettingType(text, {"type": ["string", "number"]})
PATH = SettingType(path, {"type": ["string", "number"]})
STATE_PATH = SettingType(state_path, {"type": ["string", "number"]})
PLACE = SettingType(place, {"type": ["string", "number"]})
NAME = SettingType(name, {"type": ["string", "number"]})
ENDPOINT_URL = SettingType(endpoint_url, {"type": ["string", "number"]})
PAGE_URL_PATTERN = r"^([Hh][Tt][Tt][Pp][Ss]?://[^/?#@\s]+(/[^?#\s]*)?)?$"
"""The pattern of what `page_url` takes, for schemas."""
PAGE_URL = SettingType(page_url, {"type": "string", "pattern": PAGE_URL_PATTERN})
SWITCH = SettingType(switch, {"type": ["boolean", "string"], "enum": [True, False, "true", "false"]})
SERVERS = SettingType(bootstrap_servers, {"type": ["string", "array"], "items": {"type": "string"}})
PAIRS = SettingType(pairs, {"type": "string"})
GROUPS = SettingType(groups, {"type": ["array", "string"], "items": _GROUP_SCHEMA})
PATTERNS = SettingType(patterns, {"type": ["array", "string"], "items": {"type": "string"}})
SOME_PATTERNS = SettingType(some_patterns, {**PATTERNS.schema, "minItems": 1, "minLength": 1})
LISTEN_ADDRESS = SettingType(listen_address, {"type": "string"})


def whole_number_kind(minimum: int, maximum: int) -> SettingType:
    """`whole_number`, with its schema; digits in quotes are accepted too."""
    return SettingType(
        whole_number(minimum, maximum),
        {"type": ["integer", "string"], "minimum": minimum, "maximum": maximum, "pattern": r"^\s*-?\d+\s*$"},
    )


def one_of_kind(*choices: str) -> SettingType:
    """Returns the type of a setting with `choices`, upper and lower case alike; the schema has them as written and in
    lower case.
    """

    def parse(value: Any) -> str:
        for choice in choices:
            if str(value).lower() == choice.lower():
                return choice
        raise ValueError("must be one of " + ", ".join(choices))

    lower = sorted({choice.lower() for choice in choices} - {*choices})
    return SettingType(parse, {"type": "string", "enum": [*choices, *lower]})
