"""``web``: one uvicorn process with two listeners, one for browsers and one for workloads.

The sockets come from the manager, which keeps them while this process is replaced: a connection
that arrives meanwhile waits in the queue instead of being refused.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
from typing import Any

from common.memory import loading

GRACE_S = 5


async def serve(public: socket.socket, *internal: socket.socket, drain_s: float = 0.0) -> None:
    """Answer until SIGTERM and ``drain_s`` after it, then end what is open."""
    from common import serving
    from portal.asgi import application

    ours: dict[str, Any] = {"ws": "none", "timeout_graceful_shutdown": GRACE_S}
    servers = [
        (
            serving.Listener(serving.config(application, **ours, **serving.tls())),
            [serving.for_browsers(public)],
        ),
        (
            serving.Listener(serving.config(application, **ours)),
            [serving.for_workloads(one) for one in internal],
        ),
    ]
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for server, _ in servers:
            server.should_exit = True

    def told() -> None:
        # A load balancer goes on sending for a moment; what it sends is still answered.
        loop.call_later(drain_s, stop)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)
    # What was loaded so far stays for ever; the collector need not look at it again.
    gc.collect()
    gc.freeze()
    await asyncio.gather(*(server.serve(sockets=listening) for server, listening in servers))


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
    with loading():
        import django

        django.setup(set_prefix=False)  # as for any server: each request brings its own
    public, *internal = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    asyncio.run(serve(public, *internal))


if __name__ == "__main__":
    main()
