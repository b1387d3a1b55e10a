# ruff: noqa: T201 - a program
"""What meets an open transaction on the volume that it needs.

``sync``: a load that deletes, made while another one into its folder is being made. ``restore`` and
``files``: a load, and a file browser, that begin while the volume is being put back. It says
what was answered, and how many rows there are.
"""

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

from tests.notebooks.race_world import begin  # first: it sets Django up

# isort: split
from django.db import connection, connections, transaction

from clusters.installed import ensure_local_cluster
from common.errors import BerthError
from files.models import FileSession
from files.services import session_open
from loaders.models import Load
from loaders.services import load_create
from volumes.models import Volume
from volumes.services.create import NewVolume, volume_create

PATIENCE_S = 20.0
_WAITS = ("FOR KEY SHARE", "FOR NO KEY UPDATE")


def restore(volume: Volume) -> None:
    row = Volume.objects.select_for_update().get(pk=volume.pk)
    row.restore_serial += 1
    row.save(update_fields=["restore_serial"])


def meet(first: Callable[[], object], second: Callable[[], object]) -> str:
    """Do the second while the transaction of the first is open; return what it was answered."""
    wants_it = threading.Event()
    answers = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith("BEGIN") or any(word in sql for word in _WAITS):
            wants_it.set()
        return execute(sql, *rest)

    def run() -> None:
        try:
            with connection.execute_wrapper(note):
                second()
            answers.append("made")
        except BerthError as error:
            answers.append(error.code)
        finally:
            wants_it.set()
            connections.close_all()

    thread = threading.Thread(target=run)
    with transaction.atomic():
        first()
        thread.start()
        wants_it.wait(PATIENCE_S)
    thread.join()
    return answers[0]


def main(word: str) -> dict[str, Any]:
    who, project, _preset = begin()
    ensure_local_cluster()
    volume = volume_create(principal=who, project=project, wanted=NewVolume("data", 1024))

    def load(bucket: str) -> Load:
        wanted = {
            "url": f"s3://{bucket}/a/",
            "volume": "data",
            "folder": "in",
            "mode": "sync",
            "delete_extra": True,
        }
        return load_create(principal=who, project=project, said=wanted)

    acts: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "sync": (lambda: load("one"), lambda: load("two")),
        "restore": (lambda: restore(volume), lambda: load("one")),
        "files": (
            lambda: restore(volume),
            lambda: session_open(principal=who, project=project, volume_uid=volume.uid),
        ),
    }
    answer = meet(*acts[word])
    rows = FileSession.objects.count() if word == "files" else Load.objects.count()
    told = {"vendor": connection.vendor, "answer": answer, "rows": rows}
    connections.close_all()
    return told


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
