# ruff: noqa: T201 - a program
"""A launch that meets the restore of the volume it names.

The launch looks at the volume, then begins its transaction while the restore's is open. It
says what the launch was answered, and how many workspaces there are.
"""

import json
import threading
from typing import Any

from tests.notebooks.race_world import begin  # first: it sets Django up

# isort: split
from django.db import connection, connections, transaction

from clusters.installed import ensure_local_cluster
from common.errors import Conflict
from notebooks.models import Workspace
from tests.support.workspaces import workspace_launch
from volumes.models import Volume
from volumes.services.create import NewVolume, volume_create

PATIENCE_S = 20.0


def main() -> dict[str, Any]:
    who, project, preset = begin()
    ensure_local_cluster()
    volume = volume_create(principal=who, project=project, wanted=NewVolume("data", 1024))
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
                    said={"volumes": ["data"]},
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
    answer["rows"] = Workspace.objects.count()
    connections.close_all()
    return answer


if __name__ == "__main__":
    print(json.dumps(main()))
