"""A receiver of dbtick that takes every event once, although events come at least once.

    python3 receiver.py [--port 8080] [--database received.db]

It needs nothing but Python. SQLite stands for your database. With WEBHOOK_SECRET set, what is not signed with it
is refused.
"""

import argparse
import base64
import gzip
import hmac
import json
import os
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

TABLES = """
CREATE TABLE IF NOT EXISTS processed_events (id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS copies (
    poller TEXT NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (poller, key)
);
CREATE TABLE IF NOT EXISTS changes (
    poller TEXT NOT NULL, key TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (poller, key)
);
"""


class Never(Exception):
    """The event is wrong, and stays so."""


def open_database(file):
    database = sqlite3.connect(file, timeout=30)
    database.executescript(TABLES)
    return database


def apply(database, poller, event):
    """Your effect. The copy could be written twice; the count could not, and is safe all the same."""
    key = json.dumps(event["key"], sort_keys=True)
    if event["op"] == "delete":
        database.execute("DELETE FROM copies WHERE poller = ? AND key = ?", (poller, key))
    elif event["data"].get("status") == "impossible":
        raise Never("no order has this status")
    else:
        row = (poller, key, json.dumps(event["data"]))
        database.execute("INSERT OR REPLACE INTO copies VALUES (?, ?, ?)", row)
    count = "ON CONFLICT (poller, key) DO UPDATE SET count = count + 1"
    database.execute(f"INSERT INTO changes VALUES (?, ?, 1) {count}", (poller, key))


def take(database, poller, event):
    """Whether the event is new. Its id and its effect are one transaction: both are kept, or neither."""
    with database:
        seen = "INSERT INTO processed_events (id) VALUES (?) ON CONFLICT DO NOTHING"
        if database.execute(seen, (event["id"],)).rowcount == 0:
            return False
        apply(database, poller, event)
    return True


def take_batch(database, batch):
    """How many events are new, and the answer: every event that it does not name has been taken."""
    new, failed, held = 0, [], set()
    for event in batch["events"]:
        key = json.dumps(event["key"], sort_keys=True)
        try:
            # A later version of a row must not overtake one that comes again.
            if key in held:
                raise LookupError("an earlier event of this row comes again")
            new += take(database, batch["poller"], event)
        except Never as why:
            failed.append({"id": event["id"], "reason": str(why), "retry": False})
        except Exception as why:
            held.add(key)
            failed.append({"id": event["id"], "reason": str(why), "retry": True})
    return new, {"failed": failed}


def is_signed(secret, headers, body):
    """By Standard Webhooks, over the bytes as they arrived. The names of headers are in lower case."""
    identity, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{identity}.{timestamp}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(expected.encode(), one.encode()) for one in given)


def receive(database, headers, body):
    """The status and the answer to a request."""
    secret = os.environ.get("WEBHOOK_SECRET")
    if secret and not is_signed(secret, headers, body):
        return 401, {"error": "not signed with our key"}
    if headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    batch = json.loads(body)
    new, answer = take_batch(database, batch)
    events, failed = len(batch["events"]), len(answer["failed"])
    print(f"{batch['poller']}: {events} events, {new} of them new, {failed} not taken", flush=True)
    return 200, answer


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, answer = receive(self.server.database, headers, body)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """What was taken is told already."""


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Takes what dbtick posts, every event once.")
    arguments.add_argument("--port", type=int, default=8080)
    arguments.add_argument("--database", default=Path(__file__).with_name("received.db"))
    arguments = arguments.parse_args()
    try:
        server = HTTPServer(("127.0.0.1", arguments.port), Receiver)
    except OSError as why:
        sys.exit(f"port {arguments.port}: {why}; choose another with --port, and set ORDERS_HOOK to it")
    server.database = open_database(arguments.database)
    print(f"listening at http://localhost:{server.server_port}/", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
