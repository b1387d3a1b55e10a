"""``python -m serving.gateway FD``: the process ``gateway``, with a socket that listens."""

import os
import socket
import sys

from common.memory import loading


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
    with loading():
        import django

        django.setup()
        from serving.gateway.program import serve

    serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
