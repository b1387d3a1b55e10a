"""What the endpoints of the demonstration run, as a program of its own: it answers at ``PORT``.

It speaks KServe's first protocol, takes a few milliseconds as a small model would, and adds up
what it is sent: where made-up people try things out nothing is installed for them.
"""

import json
import os
import random
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USUAL_S = 0.012
SPREAD = 0.5


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._say(200, {"ready": True, "ask": 'POST {"instances": [[0.1, 0.2]]} to v1/models/…'})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        try:
            sums = [sum(map(float, one)) for one in json.loads(body)["instances"]]
        except (ValueError, KeyError, TypeError):
            self._say(400, {"error": "instances are lists of numbers"})
            return
        time.sleep(USUAL_S * random.lognormvariate(0, SPREAD))
        self._say(200, {"predictions": sums})

    def log_message(self, *_: object) -> None:
        """No line for each request."""

    def _say(self, status: int, told: object) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Answers).serve_forever()
