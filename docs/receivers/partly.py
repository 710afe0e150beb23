"""A receiver that names the events which it has not taken.

    python partly.py    # prints the port that it listens at
"""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer


class Never(Exception):
    """The event is wrong, and stays so."""


def handle(event):
    """Your effect, safe to be repeated: the same event may come again."""
    if event["op"] == "upsert" and event["data"]["customer"] is None:
        raise Never("an order needs a customer")
    if event["op"] == "upsert" and event["data"]["customer"] == "new":
        raise LookupError("the customer is not known yet")


def answer(batch):
    """Every event that is not named here has been taken."""
    failed = []
    for event in batch["events"]:
        try:
            handle(event)
        except Never as why:
            failed.append({"id": event["id"], "reason": str(why), "retry": False})
        except Exception as why:
            failed.append({"id": event["id"], "reason": str(why), "retry": True})
    return {"failed": failed}


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        batch = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = json.dumps(answer(batch)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    print(server.server_port, flush=True)
    server.serve_forever()
