"""Turns messages into bytes that can be kept, and bytes into the responses that a decoder gets; replaces names in them.

kafka-python knows the fields of each message, and which of them is a topic, an id or a group. A text of a field that is not
known to be harmless is taken for a name. Records are never kept: a Fetch response has headers of batches and end markers.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, Final

from kafka.protocol.api_message import ApiMessage

from exporter.kafka.errors import MalformedResponseError
from exporter.kafka.messages.log_batches import batches
from exporter.kafka.messages.raw_request import RawRequest, RawResponse
from exporter.kafka.messages.versions import api_of

RenameText = Callable[[str, str], str]
"""Called with a text and the kind of its name; returns the text to write."""
_FETCH: Final = 1
_PREFIX_BYTES, _HEADER_BYTES, _MAGIC_AT, _MAGIC_WITH_PRODUCERS = 17, 61, 16, 2
_KINDS: Final = {"topicName": "topic", "transactionalId": "id", "groupId": "group"}
"""Kinds of names by Kafka's types of entities, and below by names of fields."""
_FIELDS: Final = {
    "host": "host",
    "client_host": "host",
    "cluster_id": "cluster",
    "principal": "user",
    "log_dir": "path",
}
_HARMLESS: Final = re.compile(
    "(unknown_)?state_filters|states_filter|types_filter|(transaction|group)_state|group_type|configuration_keys"
)
"""Fields without names."""
_HARMLESS_TEXTS: Final = {
    "value": re.compile(r"-?\d+|true|false|compact|delete"),
    "protocol_type": re.compile("consumer|share|connect"),
}
"""Texts without names, by their fields; in another field, each of them may be a name."""
_BROKER_OR_CLUSTER: Final = 4
"""Type of the resource that is named by a broker's id (DescribeConfigs), or `kafka-cluster` (DescribeAcls)."""
_WILDCARD: Final = "*"
_CONFIG_NAME: Final = re.compile(r"[a-z]+(\.[a-z0-9]+)+")
_NOTES: Final = frozenset({"error_message", "documentation", "metadata"})
"""Fields with free text of brokers or clients, which no verdict depends on."""
UNREADABLE: Final = (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError, struct.error)


def version_of(request: Any) -> int:
    """Returns the version of a request; the highest one if none was agreed with the broker."""
    if request.API_VERSION is None:
        request.API_VERSION = api_of(request).highest
    return int(request.API_VERSION)


def bytes_of(message: Any) -> bytes:
    """Returns the body of a request or response, without its header."""
    return message._body if isinstance(message, RawRequest) else bytes(message.encode())  # noqa: SLF001


def kept(api_key: int, answer: Any, last: bytes) -> Any:
    """Returns what is kept of a response: its bytes, of a Fetch without records; or the object that kafka-python made.

    `last` are those of the cycle before, which are kept again if they are the same: comparing is faster than copying.
    """
    if isinstance(answer, RawResponse):
        return last if len(last) == len(answer.body) and last.startswith(answer.body) else answer.body.tobytes()
    if api_key != _FETCH:
        return answer
    copy = response_of(api_key, answer.API_VERSION, bytes_of(answer), is_raw=False)
    for partition in (partition for topic in copy.responses for partition in topic.partitions):
        partition.records = without_records(bytes(partition.records or b""))
    return bytes_of(copy)


def without_records(records: bytes) -> bytes:
    """The piece of a log, as long as before, with zeros for all that is neither a header of a batch nor an end marker."""
    blank, end = bytearray(len(records)), 0
    with suppress(MalformedResponseError):  # its reader finds the same, by the prefix
        for batch in batches(records):
            has_producer = records[batch.start + _MAGIC_AT] == _MAGIC_WITH_PRODUCERS
            is_kept = has_producer and batch.is_control and not batch.is_compressed
            header_end = batch.start + (_HEADER_BYTES if has_producer else _PREFIX_BYTES)
            end = batch.end
            part = slice(batch.start, end if is_kept else min(header_end, end))
            blank[part] = records[part]
    blank[end : end + _PREFIX_BYTES] = records[end : end + _PREFIX_BYTES]
    return bytes(blank)


def response_of(api_key: int, version: int, body: bytes, *, is_raw: bool) -> Any:
    """Returns the response as its decoder gets it. Raises MalformedResponseError."""
    try:
        if is_raw:
            return RawResponse(memoryview(body), struct.unpack_from(">i", body)[0], version)
        return _class_of(api_key, is_request=False).decode(body, version=version)
    except UNREADABLE as error:
        raise MalformedResponseError(f"a recorded response to API {api_key} cannot be decoded: {error}") from error


def renamed(api_key: int, version: int, body: bytes, rename: RenameText, *, is_request: bool) -> bytes | None:
    """Returns a body with other names; None for a message unknown to kafka-python. Raises MalformedResponseError."""
    try:
        message_class = _class_of(api_key, is_request=is_request)
        if message_class is None:
            return None
        message = message_class.decode(body, version=version)
        _rename_in(message, version, rename)
        return bytes_of(message)
    except UNREADABLE as error:
        raise MalformedResponseError(f"a recorded message of API {api_key} cannot be decoded: {error}") from error


@cache
def _class_of(api_key: int, *, is_request: bool) -> Any:
    for module in ("metadata", "admin", "consumer"):
        import_module(f"kafka.protocol.{module}")
    classes = (each for each in ApiMessage.__subclasses__() if each._class_version is None)  # noqa: SLF001
    return next((each for each in classes if (each.API_KEY, each.is_request()) == (api_key, is_request)), None)


def _rename_in(message: Any, version: int, rename: RenameText) -> None:
    for field in message._struct._fields:  # noqa: SLF001 - kafka-python shows its schema nowhere else
        value = getattr(message, field.name) if field.for_version_q(version) else None
        if not value:
            continue
        kind = _KINDS.get(field._json.get("entityType"), "")  # noqa: SLF001
        if field.is_struct() or field.is_struct_array():
            for each in value if field.is_struct_array() else (value,):
                _rename_in(each, version, rename)
        elif field.name == "resource_name" and message.resource_type == _BROKER_OR_CLUSTER:
            continue
        elif field.type_str == "string":
            setattr(message, field.name, _renamed_text(value, field.name, kind, rename))
        elif field.type_str == "[]string":
            setattr(message, field.name, [_renamed_text(each, field.name, kind, rename) for each in value])
        elif field.type_str == "bytes":
            setattr(message, field.name, b"")


def _renamed_text(text: str, field: str, kind: str, rename: RenameText) -> str:
    if field in _NOTES:
        return ""
    if kind or field in _FIELDS:
        return rename(text, kind or _FIELDS[field])
    is_config = field == "name" and _CONFIG_NAME.fullmatch(text)
    texts = _HARMLESS_TEXTS.get(field)
    is_harmless = text in {"", _WILDCARD} or _HARMLESS.fullmatch(field) or (texts and texts.fullmatch(text))
    return text if is_config or is_harmless else rename(text, "name")
