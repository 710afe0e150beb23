"""A receiver that rejects an attempt which is older than one that it has taken.

    python fence.py rows.db    # prints the port that it listens at
"""

import json
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

TABLES = """
CREATE TABLE IF NOT EXISTS fences (
    poller TEXT PRIMARY KEY, token INTEGER NOT NULL, sequence INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS copies (
    poller TEXT NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (poller, key)
);
"""

# Changes nothing where a greater pair has been seen. An equal one is the same attempt again.
RAISE = """
INSERT INTO fences (poller, token, sequence) VALUES (?, ?, ?)
ON CONFLICT (poller) DO UPDATE SET token = excluded.token, sequence = excluded.sequence
WHERE (excluded.token, excluded.sequence) >= (fences.token, fences.sequence)
"""


def take(database, batch):
    """Whether the batch is current. Fence and rows are one transaction: both are kept, or neither."""
    poller, fence = batch["poller"], batch["fence"]
    # Shards of one poller count each for itself.
    counted = poller + "." + fence.get("shard", "")
    with database:
        raised = database.execute(RAISE, (counted, fence["token"], fence["sequence"]))
        if raised.rowcount == 0:
            return False
        for event in batch["events"]:
            key = json.dumps(event["key"], sort_keys=True)
            if event["op"] == "delete":
                database.execute("DELETE FROM copies WHERE poller = ? AND key = ?", (poller, key))
            else:
                row = (poller, key, json.dumps(event["data"]))
                database.execute("INSERT OR REPLACE INTO copies VALUES (?, ?, ?)", row)
    return True


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        batch = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200 if take(self.server.database, batch) else 409)
        self.send_header("content-length", "0")
        self.end_headers()


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    server.database = sqlite3.connect(sys.argv[1])
    server.database.executescript(TABLES)
    print(server.server_port, flush=True)
    server.serve_forever()
