# ruff: noqa: E402, T201 - a program: settings first, then Django
"""Workers that all believe the duty is theirs measure and roll up at once.

Says how many samples there are, and how many each roll-up counted.
"""

import json
import os
import random
import threading
import time
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.test")

import django

django.setup()

from django.db import connection, connections
from django.db.models import Sum

from clusters.models import Cluster
from metrics import sampling
from metrics.models import HourSample, MinuteSample, Sample
from metrics.rollups import HOUR, MINUTE, roll_up
from tests.engineapp.models import Thing

MEASURING, TURNS, WORK = 4, 12, 3


class Driver:
    def usage(self, uids: list[str]) -> dict[str, dict[str, float]]:
        return {uid: {"cpu_milli": 10.0} for uid in uids}


def main() -> dict[str, Any]:
    Cluster.objects.get_or_create(key="local", defaults={"name": "Here"})
    for _ in range(WORK):
        Thing.objects.create(phase="running")
    sampling.driver_for = lambda _key: Driver()  # type: ignore[assignment,return-value]
    note_quiet = sampling._note_quiet

    def slowly(*given: Any) -> None:
        note_quiet(*given)
        time.sleep(random.random() / 50)

    sampling._note_quiet = slowly
    measured, over = threading.Semaphore(0), threading.Event()
    errors: list[str] = []

    def played(act: Any) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - counted and shown
            errors.append(repr(error))
        finally:
            connections.close_all()

    def measure() -> None:
        for _ in range(TURNS):
            sampling.sample()
            measured.release()

    def roll() -> None:
        # Each as soon as there is something new: whoever asks without a pause holds SQLite's only
        # lock nearly always, and a busy machine lets nobody else have it within its patience.
        while measured.acquire() and not over.is_set():
            roll_up(MINUTE)
            roll_up(HOUR)

    measuring = [threading.Thread(target=played, args=(measure,)) for _ in range(MEASURING)]
    rolling = [threading.Thread(target=played, args=(roll,)) for _ in range(2)]
    for thread in (*measuring, *rolling):
        thread.start()
    for thread in measuring:
        thread.join()
    over.set()
    measured.release(len(rolling))
    for thread in rolling:
        thread.join()
    for tier in (MINUTE, HOUR):
        roll_up(tier)
    counted = {
        model.__name__: [
            model.objects.aggregate(n=Sum("samples"))["n"],
            model.objects.aggregate(n=Sum("cpu_milli_sum"))["n"],
        ]
        for model in (MinuteSample, HourSample)
    }
    made = Sample.objects.count()
    connections.close_all()
    return {"made": made, "errors": errors, "vendor": connection.vendor, **counted}


if __name__ == "__main__":
    print(json.dumps(main()))
