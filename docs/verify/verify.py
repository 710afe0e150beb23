"""Verifies a delivery of dbtick.

    pip install standardwebhooks
"""

import base64
import gzip
import hmac
import json
import os
import sys
import time

from standardwebhooks import Webhook


def verify(secret: str, headers: dict[str, str], body: bytes):
    """What was sent, or an exception. `body` is what arrived, before anything has decoded it, and
    the names of headers are in lower case."""
    if headers.get("content-encoding") != "gzip":
        return Webhook(secret).verify(body, headers)

    # Signed are the bytes on the wire; the library takes text only.
    timestamp = headers["webhook-timestamp"]
    if abs(time.time() - int(timestamp)) > 300:
        raise ValueError("too old, or too new")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{timestamp}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    given = headers["webhook-signature"].split(" ")
    if not any(hmac.compare_digest(expected, signature) for signature in given):
        raise ValueError("no signature matches")
    return json.loads(gzip.decompress(body))


if __name__ == "__main__":
    # One line with the headers as JSON, then the body.
    arrived = json.loads(sys.stdin.buffer.readline())
    print(json.dumps(verify(os.environ["WEBHOOK_SECRET"], arrived, sys.stdin.buffer.read())))
