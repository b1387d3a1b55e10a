"""``berth-server PROCESS``: one process of an installation of several (containers, units).

Nothing here manages another process: that is what the orchestrator is for. Each process waits for
a database of its version, so that the order in which they are started does not matter.
"""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable

from portal.server.manager import listen
from portal.server.paths import ROOT, UNLIKE, Refusal, private_umask

DATABASE_WITHIN_S = 300.0
ASK_EVERY_S = 2.0
# Any number will do, as long as nothing else in this database uses it.
MIGRATION_LOCK = 0x62657274


def serve(process: str, *, secret: str = "", anew: bool = False) -> int:
    """Run one of ``PROCESSES`` until it is told to end; return its exit code.

    ``secret`` is for ``secrets`` and ``migrate``, ``anew`` for ``migrate``.
    """
    if process == "secrets":
        from portal.server import installation

        return installation.into_secret(secret) if secret else installation.print_lines()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.prod")
    private_umask()
    if process == "migrate":
        return migrate(secret=secret, anew=anew)
    return PROCESSES[process]()


def load() -> None:
    from portal.server.preflight import setup

    setup()


def say(text: str) -> None:
    print(f"berth: {text}", file=sys.stderr, flush=True)


# --- The database ---------------------------------------------------------------------------------


def wait_for_database(*, migrated: bool = True) -> None:
    """Return once it answers and (``migrated``) has all tables of this version."""
    deadline = time.monotonic() + DATABASE_WITHIN_S
    told = ""
    while problem := database_problem(migrated=migrated):
        if time.monotonic() >= deadline:
            message = f"{problem} Waited {DATABASE_WITHIN_S:.0f} s."
            raise Refusal(message)
        if problem != told:
            say(f"waiting: {problem}")
            told = problem
        time.sleep(ASK_EVERY_S)
    if migrated:
        require_own_secrets()


def require_own_secrets() -> None:
    """A process with another installation's secrets would read nothing, and write what no other
    process reads.
    """
    from django.db import connection

    from portal.server.installation import is_proved
    from runtime.models import Installation

    own = Installation.objects.first()
    connection.close()
    if own is not None and not is_proved(own.proofs):
        message = (
            "BERTH_SECRET_KEY is not the key that this database was set up with"
            f" (installation {own.uid}). Give it the one of before; a key that was changed on"
            " purpose belongs into BERTH_SECRET_KEY_FALLBACKS."
        )
        raise Refusal(message, code=UNLIKE)


def database_problem(*, migrated: bool) -> str:
    from django.db import DatabaseError, connection

    from portal.server.preflight import pending_migrations
    from runtime import installation

    is_set_up = True
    try:
        connection.ensure_connection()
        waiting = pending_migrations() if migrated else []
        if migrated and not waiting:
            is_set_up = bool(installation.own_id())
    except DatabaseError as error:
        connection.close()
        return f"The database does not answer ({str(error).strip().splitlines()[0]})."
    if waiting:
        return f"{len(waiting)} migrations wait for `berth-server migrate`."
    connection.close()
    if not is_set_up:
        return "The database waits for `berth-server migrate`."
    return ""


def migrate(*, secret: str = "", anew: bool = False) -> int:
    """Bring the database to this version, once, however many try at the same time.

    ``secret``: where the installation is recorded in a cluster, instead of a file.
    """
    load()
    wait_for_database(migrated=False)
    from django.db import connection

    from portal.server import installation
    from portal.server.preflight import prepare_database

    if connection.vendor == "postgresql":
        alone()
    prepare_database(installation.SecretRecord(secret) if secret else None, anew=anew)
    say("the database is ready.")
    return 0


def alone() -> None:
    """Hold a lock of this session until the process ends; others wait for it here."""
    from django.db import connection

    told = False
    while True:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [MIGRATION_LOCK])
            if cursor.fetchone()[0]:
                # a large table may take longer than any page ever may
                cursor.execute("SET statement_timeout = 0")
                return
        if not told:
            say("waiting: another process migrates the database.")
            told = True
        time.sleep(ASK_EVERY_S)


# --- The processes --------------------------------------------------------------------------------


def listener(address: str, port: int) -> socket.socket:
    try:
        return listen(address, port)
    except OSError as error:
        message = f"Port {port} of {address} can't be used: {(error.strerror or '').lower()}."
        raise Refusal(message) from error


def web() -> int:
    load()
    from django.conf import settings

    from portal.server import web as server

    wait_for_database()
    public = listener(settings.BERTH_BIND, settings.BERTH_PORT)
    internal = listener(settings.BERTH_INTERNAL_BIND, settings.BERTH_INTERNAL_PORT)
    asyncio.run(server.serve(public, internal, drain_s=settings.BERTH_DRAIN_SECONDS))
    return 0


def worker() -> int:
    load()
    from django.conf import settings

    from portal.server import worker
    from portal.server.duties import Worker

    wait_for_database()
    one = Worker()
    if settings.BERTH_HEALTH_PORT:
        worker.start_probes(settings.BERTH_BIND, settings.BERTH_HEALTH_PORT, one.silent)
    return one.run()


def gate() -> int:
    load()
    wait_for_database()
    os.execv(sys.executable, [sys.executable, "-m", "gate"])  # noqa: S606 - there is no shell to want


def gateway() -> int:
    load()
    from django.conf import settings

    from serving.gateway.program import serve

    wait_for_database()
    serve(listener(settings.BERTH_BIND, settings.BERTH_GATEWAY_PORT))
    return 0


def proxy() -> int:
    """Become the notebook proxy, where Node and its packages are on this machine."""
    load()
    from django.conf import settings

    from portal.server.preflight import proxy_options
    from portal.server.up import node

    fallback = f"{settings.BERTH_INTERNAL_URL.rstrip('/')}/hub/424"
    words = [node(), str(ROOT / "proxy/berth-proxy.mjs"), *proxy_options(fallback)]
    words += ["--ip", settings.BERTH_BIND, "--port", str(settings.BERTH_PROXY_PORT)]
    words += ["--api-ip", settings.BERTH_INTERNAL_BIND]
    words += ["--api-port", str(settings.BERTH_PROXY_API_PORT)]
    environment = {**os.environ, "CONFIGPROXY_AUTH_TOKEN": settings.BERTH_PROXY_TOKEN}
    os.execve(words[0], words, {**environment, "NODE_ENV": "production"})  # noqa: S606


def check() -> int:
    """Say what is wrong with this installation; exit code 1 when something is."""
    load()
    from django.conf import settings
    from django.core.management import call_command
    from django.core.management.base import SystemCheckError

    from console.health import check_all
    from portal.server.preflight import check_files

    check_files()
    bad = 0
    try:  # a trial on this machine's own names is not held to what a public address needs
        call_command("check", deploy=settings.BERTH_SECURE, fail_level="WARNING", verbosity=0)
    except SystemCheckError as error:
        bad += 1
        print(str(error), file=sys.stderr)
    for one in check_all():
        bad += one.vital and not one.ok
        state = "ok" if one.ok else "DOWN" if one.vital else "down"
        print(f"{one.name:<12} {state:<5} {one.message}", flush=True)
    return 1 if bad else 0


def health() -> int:
    """For container health checks: does the process in this container answer?"""
    import http.client
    import ssl
    from urllib.parse import urlsplit

    port = int(os.environ.get("BERTH_HEALTH_PORT") or os.environ.get("BERTH_PORT") or 8000)
    host = urlsplit(os.environ.get("BERTH_PUBLIC_URL", "")).netloc or "localhost"
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=4)
    if os.environ.get("BERTH_TLS_CERT"):  # of the name that others use: here nobody is between
        any_name = ssl.create_default_context()
        any_name.check_hostname, any_name.verify_mode = False, ssl.CERT_NONE
        asked = http.client.HTTPSConnection("127.0.0.1", port, timeout=4, context=any_name)
    try:
        asked.request("GET", "/readyz", headers={"Host": host})
        answer = asked.getresponse()
    except OSError as error:
        say(f"nothing answers on port {port} ({error}).")
        return 1
    text = answer.read(2000).decode(errors="replace").strip()
    print(f"{answer.status} {text}")
    return 0 if answer.status < http.client.BAD_REQUEST else 1


PROCESSES: dict[str, Callable[[], int]] = {
    "web": web,
    "worker": worker,
    "gate": gate,
    "gateway": gateway,
    "proxy": proxy,
    "check": check,
    "health": health,
}
