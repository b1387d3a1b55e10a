# ruff: noqa: E402, T201 - a program: settings first, then Django
"""A launch that meets the restore of the volume it names; run against a database of its own.

The launch looks at the volume, then begins its transaction while the restore's is open. Prints
one JSON line: what the launch was answered, and how many workspaces there are.
"""

import json
import os
import threading
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.test")

import django

django.setup()

from django.core.management import call_command
from django.db import connection, connections, transaction

from accounts.models import User
from accounts.principal import Principal
from clusters.services.health import ensure_local_cluster
from common.errors import Conflict
from notebooks.models import Preset, Workspace
from notebooks.services import Wanted, ensure_default_presets, workspace_launch
from projects.models import Membership, Project
from volumes.models import Volume
from volumes.services import NewVolume, volume_create

PATIENCE_S = 20.0


def main() -> None:
    call_command("migrate", verbosity=0)
    person = User.objects.create(username="ann", password="!")
    project = Project.objects.create(slug="race", name="Race")
    Membership.objects.create(project=project, user=person, role="member")
    ensure_default_presets()
    ensure_local_cluster()
    who = Principal(user=person)
    volume = volume_create(principal=who, project=project, wanted=NewVolume("data", 1024))
    preset = Preset.objects.get(slug="jupyterlab")
    wants_it = threading.Event()
    answer: dict[str, Any] = {"vendor": connection.vendor, "launch": "made"}

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        if "FOR KEY SHARE" in sql or sql.startswith("BEGIN"):
            wants_it.set()
        return execute(sql, *rest)

    def launch() -> None:
        try:
            with connection.execute_wrapper(note):
                workspace_launch(
                    principal=who,
                    project=project,
                    preset=preset,
                    wanted=Wanted(volumes=["data"]),
                )
        except Conflict as error:
            answer["launch"] = error.code
        finally:
            connections.close_all()

    thread = threading.Thread(target=launch)
    with transaction.atomic():
        row = Volume.objects.select_for_update().get(pk=volume.pk)
        row.restore_serial += 1
        row.save(update_fields=["restore_serial"])
        thread.start()
        wants_it.wait(PATIENCE_S)
    thread.join()
    print(json.dumps({**answer, "rows": Workspace.objects.count()}))
    connections.close_all()


if __name__ == "__main__":
    main()
