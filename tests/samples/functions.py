"""Calls the functions of samples/python as their worker does: HTTP requests, and messages of a queue.

    python functions.py    # prints the port that it listens at
"""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "samples/python"))
sys.dont_write_bytecode = True

import azure.functions as func  # noqa: E402
import function_app  # noqa: E402

FUNCTIONS = {it.get_function_name(): it.get_user_function() for it in function_app.app.get_functions()}


def call(path, headers, body):
    if path == "/queue":
        FUNCTIONS["order_events"](func.QueueMessage(id="1", body=body))
        return 200, b""
    request = func.HttpRequest("POST", f"http://localhost{path}", headers=headers, body=body)
    response = FUNCTIONS["orders"](request)
    return response.status_code, response.get_body()


class Worker(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            status, answer = call(self.path, dict(self.headers), body)
        except Exception as why:  # The host would give the message again.
            status, answer = 500, str(why).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Worker)
print(f"port {server.server_port}", flush=True)
server.serve_forever()
