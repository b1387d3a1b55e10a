"""The process ``worker``: engine, watch, routes, health, clock and Celery, in one.

Everything is a thread that sleeps until there is something to do. Celery has the main thread
(it handles the signals); when it ends, the engine is drained: what runs ends, the rest is left
to the next worker, which finds it in the database.
"""

import os
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from common.memory import loading


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
    with loading():
        import django

        django.setup()
        from portal.server.duties import Worker

    return Worker().run()


if __name__ == "__main__":
    sys.exit(main())


# ``/livez`` and ``/readyz`` of a process that serves nothing else (the worker).


def start_probes(address: str, port: int, silent: Callable[[], list[str]]) -> ThreadingHTTPServer:
    """Answer 200 while ``silent()`` names nobody, else 503 and the names."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 5

        def do_GET(self) -> None:
            if self.path not in {"/livez", "/readyz"}:
                return self._answer(404, "not here\n")
            stuck = silent()
            if stuck:
                return self._answer(503, f"no sign of life: {', '.join(stuck)}\n")
            return self._answer(200, "ok\n")

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Probes are not worth a line."""

    server = ThreadingHTTPServer((address, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="probes", daemon=True).start()
    return server
