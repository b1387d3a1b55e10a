"""What needs Django before a start: settings, policy, database, first administrator.

Runs in a process of its own and hands the manager a plan; says each thing that is wrong in one
sentence, before anything was started.
"""

import argparse
import ipaddress
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from common.memory import loading
from portal.server import installation
from portal.server.manager import bind_all
from portal.server.paths import UNLIKE, Paths, Refusal, private_umask
from portal.server.up import EXPLAINED

PORT_MAX = 65535


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan-fd", type=int, required=True)
    parser.add_argument("--insecure-http", action="store_true")
    parser.add_argument("--new-secrets", action="store_true")
    options = parser.parse_args()
    private_umask()
    try:
        plan = prepared(insecure_http=options.insecure_http, new_secrets=options.new_secrets)
    except Refusal as refusal:
        print(f"berth: {refusal}", file=sys.stderr, flush=True)
        return UNLIKE if refusal.code == UNLIKE else EXPLAINED
    with os.fdopen(options.plan_fd, "w") as file:
        json.dump(plan, file)
    return 0


def prepared(*, insecure_http: bool, new_secrets: bool = False) -> dict[str, Any]:
    setup()
    check_files()
    check_gpus()
    check_address(insecure_http=insecure_http)
    made = plan()
    check_ports(made)
    prepare_database(new_secrets=new_secrets)
    return made


def setup() -> None:
    """Loads settings and apps, once; a wrong setting is a sentence, not a trace."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
    import django
    from django.apps import apps
    from django.core.exceptions import ImproperlyConfigured

    try:
        with loading():
            if not apps.ready:  # again, it would set up logging anew, on whatever stderr is by then
                django.setup()
        from django.conf import settings

        _ = settings.BERTH_PORT
    except ImproperlyConfigured as error:
        raise Refusal(str(error), code=2) from error
    check_names()


def check_names() -> None:
    """What settings name in Berth itself: looked up here, since that needs the loaded apps."""
    from django.conf import settings
    from django.utils.module_loading import import_string

    from clusters.options import ClusterOptions, check, options_of
    from common.errors import Invalid
    from jobs.ai_platform.machines import Tables

    try:
        Tables.of(settings.BERTH_AI_PLATFORM)
    except (TypeError, ValueError, AttributeError) as error:
        message = f"BERTH_AI_PLATFORM can't be used: {error}"
        raise Refusal(message, code=2) from error
    known = {field.name for field in fields(ClusterOptions)}
    if strange := sorted(settings.BERTH_IN_CLUSTER_OPTIONS.keys() - known):
        message = f"BERTH_IN_CLUSTER_OPTIONS: there is no option {strange[0]!r}."
        raise Refusal(message, code=2)
    try:
        import_string(settings.EMAIL_BACKEND)
        check(options_of(settings.BERTH_IN_CLUSTER_OPTIONS))
    except ImportError as error:
        message = f"BERTH_EMAIL_BACKEND names a class that can't be loaded: {error}."
        raise Refusal(message, code=2) from error
    except (Invalid, ValueError, TypeError) as error:
        message = f"BERTH_IN_CLUSTER_OPTIONS can't be used: {error}"
        raise Refusal(message, code=2) from error


def check_files() -> None:
    """What settings name on this machine's disk."""
    from django.conf import settings

    for name in ("BERTH_TLS_CERT", "BERTH_TLS_KEY", "BERTH_OUTBOUND_CA_FILE"):
        file = getattr(settings, name)
        try:
            if file:
                Path(file).read_bytes()
        except OSError as error:
            message = f"{name} names {file}, which can't be read: {error.strerror}."
            raise Refusal(message, code=2) from error


def check_gpus() -> None:
    """Simulated GPUs are for a machine without any: those that are there are never hidden."""
    from django.conf import settings

    from clusters.installed import own_gpus

    if settings.BERTH_LOCAL_CLUSTER and settings.BERTH_SIMULATED_GPUS and (own := own_gpus()):
        message = (
            f"BERTH_SIMULATED_GPUS is set, but this machine has GPUs of its own ({len(own)}:"
            f" {own[0]}). Take the setting away to use them."
        )
        raise Refusal(message, code=2)


def check_address(*, insecure_http: bool) -> None:
    from django.conf import settings

    ports = {name: port for name, port in port_numbers().items() if port or name != "ssh"}
    if any(not 0 < port <= PORT_MAX for port in ports.values()):
        message = f"Ports lie between 1 and 65535; these do not: {ports}."
        raise Refusal(message)
    if len(set(ports.values())) < len(ports):
        message = f"Each listener needs a port of its own; the settings give {ports}."
        raise Refusal(message)
    if is_loopback(settings.BERTH_BIND) or insecure_http:
        return
    missing = []
    if not (settings.BERTH_TLS_CERT or settings.BERTH_BEHIND_TLS_PROXY):
        missing.append("TLS (BERTH_TLS_CERT and BERTH_TLS_KEY, or BERTH_BEHIND_TLS_PROXY=yes)")
    if not settings.BERTH_SECURE:
        missing.append("an https:// address in BERTH_PUBLIC_URL")
    domain = settings.BERTH_NOTEBOOK_DOMAIN
    if settings.BERTH_NOTEBOOK_ROUTING == "host" and domain.endswith("localhost"):
        missing.append("a domain for workspaces in BERTH_NOTEBOOK_DOMAIN")
    if missing:
        message = (
            f"BERTH_BIND={settings.BERTH_BIND} can be reached by other machines, and that needs "
            + " and ".join(missing)
            + ". For a network you trust entirely there is --insecure-http."
        )
        raise Refusal(message)


def check_ports(plan: Mapping[str, Any]) -> None:
    """Take all ports for a moment: a busy one is told before a database is migrated for nothing."""
    listening, kept = bind_all(plan)
    for sock in (*listening.values(), *kept):
        sock.close()


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def prepare_database(
    record: installation.Record | None = None, *, new_secrets: bool = False, anew: bool = False
) -> None:
    """Migrate, and set up what is new, once it is sure what this database belongs to.

    ``anew``: an administrator said to go on with what is here, whatever it belonged to.
    """
    from django.core.management import call_command
    from django.db import DatabaseError, connection

    from common import disk

    disk.give_back()
    places = Paths.from_environment()
    record = record or installation.FileRecord(places)
    try:
        found = installation.look(places, record, new_secrets=new_secrets)
        if not anew:
            installation.require_one(found)
        newer = unknown_migrations()
        if newer:
            message = (
                "The database was made by a newer Berth (it has "
                + ", ".join(newer[:3])
                + (" …" if len(newer) > 3 else "")  # noqa: PLR2004
                + "). Install that version, or restore a backup made by this one."
            )
            raise Refusal(message)
        if pending_migrations():
            migrate()
        call_command("createcachetable", verbosity=0)
        call_command("berth_bootstrap")
        installation.settle(found, record, anew=anew)
        tell_what_is_locked()
        prepare_demo()
    except DatabaseError as error:
        name = connection.settings_dict["NAME"]
        message = f"The database {name} can't be used: {str(error).strip()}."
        if connection.vendor == "sqlite":
            message += " Restore a backup with `berth restore FILE`, or move the file away."
        raise Refusal(message) from error
    finally:
        connection.close()


def prepare_demo() -> None:
    """Make what a demonstration begins with, and show the passwords of its people once."""
    from django.conf import settings

    if not settings.BERTH_DEMO:
        return
    from portal.demo.world import told, world_ensure

    if passwords := world_ensure(settings.BERTH_SIMULATED_GPUS):
        print(told(passwords, settings.BERTH_PUBLIC_URL), flush=True)


def tell_what_is_locked() -> None:
    """A missing key locks out single secrets, not the portal: say it and go on."""
    from credentials import rekey

    if count := rekey.locked():
        print(
            f"  {count} stored secrets were sealed with a key that is not in"
            " BERTH_CREDENTIAL_KEYS. Work that needs them waits until the key is back, or the"
            " secrets are stored again.",
            flush=True,
        )


def unknown_migrations() -> list[str]:
    """Migrations in the database that this code does not have, of apps that it does."""
    from django.db import connection
    from django.db.migrations.loader import MigrationLoader

    loader = MigrationLoader(connection)
    known = set(loader.disk_migrations or {})
    for migration in (loader.disk_migrations or {}).values():
        known.update(migration.replaces)
    ours = loader.migrated_apps
    return sorted(
        f"{app}.{name}"
        for app, name in loader.applied_migrations or {}
        if app in ours and (app, name) not in known
    )


def pending_migrations() -> list[str]:
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    return [str(step) for step, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]


def migrate() -> None:
    """Brings the database to this version; a copy of the old one is kept first."""
    from django.core.management import call_command
    from django.db import connection

    from portal.server.copies import copy_before_upgrade

    if connection.vendor == "sqlite" and connection.introspection.table_names():
        copy = copy_before_upgrade(Paths.from_environment())
        print(f"  Upgrading the database; the old one is kept as {copy}", flush=True)
    else:
        print("  Preparing the database", flush=True)
    call_command("migrate", interactive=False, verbosity=0)


def port_numbers() -> dict[str, int]:
    from django.conf import settings

    return {
        "web": settings.BERTH_PORT,
        "proxy": settings.BERTH_PROXY_PORT,
        "internal": settings.BERTH_INTERNAL_PORT,
        "proxy_api": settings.BERTH_PROXY_API_PORT,
        "gate": settings.BERTH_GATE_PORT,
        "gate_internal": settings.BERTH_GATE_INTERNAL_PORT,
        "ssh": settings.BERTH_SSH_PORT,
        "gateway": settings.BERTH_GATEWAY_PORT,
    }


def plan() -> dict[str, Any]:
    from django.conf import settings

    return {
        "bind": "127.0.0.1" if settings.BERTH_BIND == "localhost" else settings.BERTH_BIND,
        "internal_bind": settings.BERTH_INTERNAL_BIND,
        "ports": port_numbers(),
        "public_url": settings.BERTH_PUBLIC_URL,
        "proxy_token": settings.BERTH_PROXY_TOKEN,
        "proxy_options": proxy_options(),
        "supervisor": {
            "wanted": settings.BERTH_LOCAL_CLUSTER and settings.BERTH_LOCAL_DRIVER == "local",
            "socket": str(settings.BERTH_SUPERVISOR_SOCKET),
            "state": str(settings.BERTH_WORKLOADS_DIR),
            "volumes": str(settings.BERTH_VOLUMES_DIR),
            "environments": str(settings.BERTH_ENVIRONMENTS_DIR),
        },
    }


def proxy_options(fallback: str = "") -> list[str]:
    from django.conf import settings

    words = ["--scheme", settings.BERTH_NOTEBOOK_SCHEME]
    fallback = fallback or f"http://127.0.0.1:{settings.BERTH_INTERNAL_PORT}/hub/424"
    words += ["--fallback-url", fallback]
    if settings.BERTH_NOTEBOOK_ROUTING == "host":
        words.append("--host-routing")
    else:
        words += ["--path-host", settings.BERTH_NOTEBOOK_PATH_HOST]
    if settings.BERTH_TLS_CERT:
        words += ["--tls-cert", settings.BERTH_TLS_CERT, "--tls-key", settings.BERTH_TLS_KEY]
    if settings.BERTH_BEHIND_TLS_PROXY:
        words.append("--behind-proxy")
    in_front = settings.BERTH_BEHIND_TLS_PROXY or settings.BERTH_TRUST_FORWARDED_FOR
    of_address = 0 if in_front else settings.BERTH_CONNECTIONS_PER_ADDRESS
    words += ["--connections-per-address", str(of_address)]
    return words


if __name__ == "__main__":
    sys.exit(main())
