"""A model server of people's own: adds the numbers of each instance. Python's own library only."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(os.environ.get("PORT", "8080"))
NAME = os.environ.get("MODEL", "sum")


class Predictor(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(200, {"name": NAME, "ready": True, "host": os.uname().nodename})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        try:
            instances = json.loads(self.rfile.read(length))["instances"]
            self.answer(200, {"predictions": [sum(row) for row in instances]})
        except (ValueError, KeyError, TypeError):
            self.answer(400, {"error": "The body is an object with “instances”, lists of numbers."})

    def answer(self, status: int, content: object) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base's name)
        """Say nothing of requests."""


if __name__ == "__main__":
    ThreadingHTTPServer(("", PORT), Predictor).serve_forever()
