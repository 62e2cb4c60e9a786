"""Condenses the errors of object stores: their code, and what to do. The rest may hold signatures and tokens."""

from __future__ import annotations

import re
from typing import Final


class StoreError(OSError):
    """An object store cannot be used now; the message names the object and the reason."""


_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_IN_XML: Final = re.compile(r"<Code>(\w+)</Code>(?:\s*<Message>([^<]*)</Message>)?")
_OF_AWS: Final = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))? during \w+ operation: (.*)", re.DOTALL)
_OF_GOOGLE: Final = re.compile(
    r"google::cloud::Status\((\w+): (?:[^,]*, with a last message of )?(?:PerformWork\(\) - )?(.*?)(?: error_info=|\)|$)",
    re.DOTALL,
)
_NO_BODY: Final = "No response body"
"""Message of a request for the status alone: the store cannot say why."""
_UNPARSED: Final = re.compile(r"Unable to parse ExceptionName: (\w+) Message: (.*)", re.DOTALL)
_REQUEST_ID: Final = re.compile(r"\s*\(Request ID: [^)]*\)")
_CREDENTIALS: Final = "check the credentials in the environment, and that they permit this"
_BUCKET: Final = "create the bucket, or correct its name"
_ADVICE: Final = {
    "http status 400": _CREDENTIALS,  # expired ones, above all
    "http status 401": _CREDENTIALS,
    "http status 403": _CREDENTIALS,
    "accessdenied": _CREDENTIALS,
    "credentialsnotfound": _CREDENTIALS,
    "expiredtoken": "renew the credentials in the environment",
    "forbidden": _CREDENTIALS,
    "invalidaccesskeyid": _CREDENTIALS,
    "invalidtoken": _CREDENTIALS,
    "networkconnection": "check the network, and AWS_ENDPOINT_URL if the store is not AWS",
    "nosuchbucket": _BUCKET,
    "notfound": _BUCKET,
    "permissiondenied": _CREDENTIALS,
    "requesttimetooskewed": "correct the clock of this machine",
    "signaturedoesnotmatch": _CREDENTIALS,
    "slowdown": "the store is overloaded; it is tried again",
    "unauthenticated": _CREDENTIALS,
    "unavailable": "check the network; it is tried again",
}
_NETWORK: Final = re.compile(r"[Cc]onnect|timed out|dns error|error sending request")
_DENIED: Final = re.compile(r"40[13] (Forbidden|Unauthorized)|lacked the necessary privileges")
_LENGTH_MAX: Final = 300


def reason_of(error: BaseException) -> str:
    """Returns the reason in one line."""
    text = _COLOURS.sub("", str(error))
    code, message = _code_and_message(text)
    if code is None:
        last = (text.splitlines() or [type(error).__name__])[-1].strip(" ↳")
        code = "networkconnection" if _NETWORK.search(text) else "accessdenied" if _DENIED.search(text) else None
        message = last
        sentence = last
    else:
        sentence = code if not message or message == code else f"{code}: {message}"
    advice = None if code is None else _ADVICE.get(code.replace("_", "").lower())
    sentence = _REQUEST_ID.sub("", sentence.splitlines()[0] if sentence else "").strip().rstrip(".")[:_LENGTH_MAX]
    return sentence if advice is None else f"{sentence} ({advice})"


def _code_and_message(text: str) -> tuple[str | None, str]:
    """Returns code and message as the store has them."""
    if found := _IN_XML.search(text):
        return found[1], (found[2] or "").strip()
    if found := _OF_AWS.search(text):
        code, status, message = found.groups()
        if unparsed := _UNPARSED.search(message):
            return unparsed[1], unparsed[2].strip()
        if status and message.startswith(_NO_BODY):
            return f"HTTP status {status}", ""
        return code, message.strip()
    if found := _OF_GOOGLE.search(text):
        code, message = found.groups()
        # Its client calls this unavailable, like a network that fails.
        return "UNAUTHENTICATED" if "OAuth2 access token" in message else code, message
    return None, ""
