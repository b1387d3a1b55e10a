# ruff: noqa: E402, T201 - a program: settings first, then Django
"""A freshly migrated database with its guard on; run as a program. Prints what was refused."""

import json
import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.test")
os.environ["BERTH_AUDIT_GUARD"] = "yes"

import django

django.setup()

from datetime import timedelta

from django.core.management import call_command
from django.db import DatabaseError, connection, transaction

from events import sealer
from events.models import Event, Seal
from events.services import record


def refused(sql: str) -> bool:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(sql)
    except DatabaseError:
        return True
    return False


def main() -> None:
    call_command("migrate", "events", verbosity=0)  # and what it stands on: all of them take long
    for n in range(3):
        record(actor=None, verb="test.done", target_name=str(n))
    sealer.seal(settle=timedelta(0))
    acts = [
        "UPDATE events_event SET actor_name = 'nobody'",
        "DELETE FROM events_event",
        "UPDATE events_seal SET digest = ''",
        "DELETE FROM events_seal",
    ]
    if connection.vendor == "postgresql":
        acts += ["TRUNCATE events_event", "TRUNCATE events_seal"]
    result = {
        "vendor": connection.vendor,
        "refused": [refused(a) for a in acts],
        "events": Event.objects.filter(verb="test.done").count(),
        "seals": Seal.objects.count(),
        "whole": sealer.verify_chain().is_whole,
        "unsealed": sealer.verify_chain().unsealed,
    }
    print(json.dumps(result))
    connection.close()


if __name__ == "__main__":
    main()
