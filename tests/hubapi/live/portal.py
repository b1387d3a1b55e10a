"""``python -m tests.hubapi.live.portal``: serve on the public and internal port; with ``prepare``
only migrate and seed the database."""

import asyncio
import os
import socket
import sys

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.hubapi.live.settings"

import uvicorn
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.db import connection


def seed() -> None:
    from django.core.management import call_command

    from accounts.models import User
    from projects.models import Project

    call_command("migrate", verbosity=0)
    Project.objects.create(slug="vision", name="Vision")
    for name in ("alice", "bob", "charlie"):
        User.objects.create(username=name, display_name=name.title(), password="!")


def bound(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


def main() -> None:
    application = get_asgi_application()
    if sys.argv[1:] == ["prepare"]:
        seed()
        connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return
    sockets = [bound(settings.BERTH_PORT), bound(settings.BERTH_INTERNAL_PORT)]
    server = uvicorn.Server(uvicorn.Config(application, log_level="warning", lifespan="off"))
    asyncio.run(server.serve(sockets=sockets))


if __name__ == "__main__":
    main()
