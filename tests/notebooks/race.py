# ruff: noqa: E402, T201 - a program: settings first, then Django
"""Many launches at once; run as a program against a database of its own.

With the word "apart" each is one of its own without a name, else all are presses of one form.

Prints one JSON line: how many workspaces there are, and what the threads were answered.
"""

import json
import os
import sys
import threading
from collections import Counter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.test")

import django

django.setup()

from django.core.management import call_command
from django.db import connection, connections

from accounts.models import User
from accounts.principal import Principal
from notebooks.models import Preset, Workspace
from notebooks.services import ensure_default_presets, workspace_launch
from projects.models import Membership, Project
from quotas.models import Reservation

THREADS = 12


def main() -> None:
    call_command("migrate", verbosity=0)
    person = User.objects.create(username="ann", password="!")
    project = Project.objects.create(slug="race", name="Race")
    Membership.objects.create(project=project, user=person, role="member")
    ensure_default_presets()
    preset = Preset.objects.get(slug="jupyterlab")
    results: Counter[str] = Counter()
    made: set[int] = set()
    barrier = threading.Barrier(THREADS)
    nonce = "" if sys.argv[1:] == ["apart"] else "one-form"

    def press() -> None:
        barrier.wait()
        try:
            row = workspace_launch(
                principal=Principal(user=person), project=project, preset=preset, nonce=nonce
            )
            made.add(row.pk)
            results["answered"] += 1
        except Exception as error:  # noqa: BLE001 - counted and shown
            results[type(error).__name__] += 1
        finally:
            connections.close_all()

    threads = [threading.Thread(target=press) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer = {
        **results,
        "same": len(made),
        "rows": Workspace.objects.count(),
        "homes": project.volumes.filter(kind="home").count(),
        "shared": project.volumes.filter(kind="project").count(),
        "reserved": Reservation.objects.filter(resource="workspaces").count(),
        "vendor": connection.vendor,
    }
    print(json.dumps(answer))
    connections.close_all()


if __name__ == "__main__":
    main()
