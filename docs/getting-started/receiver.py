"""A receiver for docs/getting-started.md: prints each event, once, and acknowledges the batch."""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

seen = set()  # A real receiver keeps these ids with its effect, in one transaction.


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        batch = json.loads(self.rfile.read(int(self.headers["content-length"])))
        for event in batch["events"]:
            again = " (again)" if event["id"] in seen else ""
            seen.add(event["id"])
            print(batch["poller"], event["op"], event["key"], event["data"], again, flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments):
        pass


port = int(sys.argv[1])
print(f"waiting for batches on http://localhost:{port}", flush=True)
HTTPServer(("127.0.0.1", port), Receiver).serve_forever()
