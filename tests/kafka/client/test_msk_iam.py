"""AWS_MSK_IAM as kafka-python signs it, against AWS's published example and a second calculation; no AWS is asked."""

from __future__ import annotations

import hashlib
import hmac
import json
import urllib.parse

from kafka.net.sasl.msk import AwsMskIamClient

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
PUBLISHED_SIGNING_KEY = "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
"""AWS General Reference, "Deriving the signing key": 20150830, us-east-1, iam."""


def test_the_signing_key_is_that_of_the_published_example() -> None:
    """Secret, date, region and service of the AWS General Reference."""
    client = AwsMskIamClient("broker", "AKIDEXAMPLE", SECRET, "us-east-1")
    client.datestamp, client.service = "20150830", "iam"

    assert client._signing_key.hex() == PUBLISHED_SIGNING_KEY


def test_the_first_message_is_signed_over_all_that_it_says() -> None:
    """Every parameter of the presigned request, by a second calculation (Signature Version 4)."""
    client = AwsMskIamClient("b-1.example", "AKIDEXAMPLE", SECRET, "eu-west-1", token="session/token=")

    message = json.loads(client.first_message())

    signed = {name: message[name.lower()] for name in ("Action",)}
    signed |= {
        f"X-Amz-{name}": message[f"x-amz-{name.lower()}"] for name in ("Algorithm", "Credential", "Date", "Expires")
    }
    signed |= {
        "X-Amz-Security-Token": message["x-amz-security-token"],
        "X-Amz-SignedHeaders": message["x-amz-signedheaders"],
    }
    query = urllib.parse.urlencode(signed, quote_via=urllib.parse.quote, safe="")
    request = f"GET\n/\n{query}\nhost:b-1.example\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    scope = message["x-amz-credential"].removeprefix("AKIDEXAMPLE/")
    text = f"AWS4-HMAC-SHA256\n{message['x-amz-date']}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    assert message["x-amz-signature"] == hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    assert (message["host"], scope.split("/")[1:]) == ("b-1.example", ["eu-west-1", "kafka-cluster", "aws4_request"])
