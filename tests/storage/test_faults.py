"""Errors of object stores as one line: the store's code, what to do, and nothing of the request."""

from __future__ import annotations

import pytest

from exporter.storage.faults import reason_of

DELTALAKE = """Generic S3 error
          \x1b[31m↳\x1b[0m Error performing GET http://127.0.0.1:1/data?list-type=2 - Server returned non-2xx status code
            \x1b[31m↳\x1b[0m 403 Forbidden
             \x1b[31m↳\x1b[0m <?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SignatureDoesNotMatch</Code><Message>The signature does not match.</Message>
<CanonicalRequest>GET&#xA;x-amz-security-token:hunter2</CanonicalRequest></Error>"""
REFUSED = """Kernel error -> Generic S3 error
          \x1b[31m↳\x1b[0m Error performing GET http://127.0.0.1:1/data in 454ms, after 3 retries - HTTP error
             \x1b[31m↳\x1b[0m error sending request
                \x1b[31m↳\x1b[0m Connection refused (os error 111)"""


NETWORK = "(check the network, and AWS_ENDPOINT_URL if the store is not AWS)"
CREDENTIALS = "(check the credentials in the environment, and that they permit this)"
UNPARSED = "AWS Error UNKNOWN (HTTP status 400) during PutObject operation: Unable to parse ExceptionName"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "When uploading object with key 'a' in bucket 'b': AWS Error SLOW_DOWN during PutObject operation: SlowDown",
            "SLOW_DOWN: SlowDown (the store is overloaded; it is tried again)",
        ),
        (
            f"{UNPARSED}: ExpiredToken Message: The token has expired. (Request ID: 1TZ)",
            "ExpiredToken: The token has expired (renew the credentials in the environment)",
        ),
        (
            "When x: AWS Error NETWORK_CONNECTION during PutObject operation: curlCode: 7, Could not connect to server",
            f"NETWORK_CONNECTION: curlCode: 7, Could not connect to server {NETWORK}",
        ),
        (
            "When x: AWS Error UNKNOWN (HTTP status 400) during HeadObject operation: No response body.",
            f"HTTP status 400 {CREDENTIALS}",
        ),
        (DELTALAKE, f"SignatureDoesNotMatch: The signature does not match {CREDENTIALS}"),
        (REFUSED, f"Connection refused (os error 111) {NETWORK}"),
        ("something else", "something else"),
        ("", "OSError"),
    ],
)
def test_the_reason_is_one_line_with_what_to_do(text: str, reason: str) -> None:
    assert reason_of(OSError(text)) == reason
