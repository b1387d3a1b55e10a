"""A month of the ledger for pictures: who held GPUs, what became of that, and what was free."""

from datetime import timedelta
from random import Random
from uuid import UUID

from django.urls import reverse

from accounts.models import User
from common.clock import now
from metrics.models import Sample
from projects.models import Project
from usage.closing import write_day
from usage.ledger import HELD
from usage.models import Interval, LedgerHour, Wait

_KINDS = (("h100-80", 80), ("a100-80", 48), ("t4", 11))
_HOUR_S = 3600.0
# Shares of what is held: computing, underused, idle, unknown, pull, start, crash, repeated, stop.
_WORK = {
    "workspace": (0.16, 0.14, 0.52, 0.08, 0.03, 0.04, 0.02, 0.0, 0.01),
    "job": (0.55, 0.25, 0.04, 0.05, 0.02, 0.02, 0.03, 0.03, 0.01),
}


def make(projects: list[Project], people: list[User]) -> None:
    random = Random(7)
    begin = (now() - timedelta(days=30)).replace(minute=0, second=0, microsecond=0)
    rows: list[LedgerHour] = []
    for n in range(30 * 24):
        hour = begin + timedelta(hours=n)
        is_day = 8 <= hour.hour < 20  # noqa: PLR2004 - office hours
        for flavor, there in _KINDS:
            attached = 0.0
            for i, project in enumerate(projects):
                for kind, shares in _WORK.items():
                    part = (0.9 if is_day or kind == "job" else 0.5) / (i + 1.6) / 2.2
                    gpus = round(there * part * random.uniform(0.7, 1.2))
                    seconds = gpus * _HOUR_S
                    attached += seconds
                    person = people[(n // 24 + i) % len(people)]
                    told = dict(zip(HELD, (seconds * share for share in shares), strict=True))
                    measured = seconds * sum(shares[:3])
                    waiting = seconds * (0.6 if is_day and flavor[0] == "h" else 0.1)
                    told |= {"waiting": waiting, "measured": measured}
                    told |= {"attached": seconds, "utilised": told["computing"]}
                    rows.append(
                        LedgerHour(
                            hour=hour,
                            cluster_key="east",
                            flavor=flavor,
                            project_uid=project.uid,
                            project_slug=project.slug,
                            owner_uid=person.uid,
                            owner_name=person.username,
                            kind=kind,
                            **told,
                        )
                    )
            free = max(0.0, there * _HOUR_S - attached)
            rows.append(
                LedgerHour(
                    hour=hour,
                    cluster_key="east",
                    flavor=flavor,
                    supply=attached + free,
                    fragmented=free * 0.2,
                    held_back=free * 0.1,
                    unasked=free * 0.7,
                    out=_HOUR_S * (2 if flavor[0] == "h" else 0),
                )
            )
    LedgerHour.objects.bulk_create(rows, batch_size=500)
    _now(projects, people)
    for day in range(31):
        write_day(begin + timedelta(days=day))


def _now(projects: list[Project], people: list[User]) -> None:
    """What is held and waited for at this moment, more than there is, and how busy it is."""
    for n, (gpus, waits, percent) in enumerate(
        ((64, 40, 35.0), (48, 16, 52.0), (24, 0, None), (8, 12, 4.0))
    ):
        project, person, at = projects[n % 2], people[n % len(people)], now()
        whose = {
            "uid": UUID(int=n + 1),
            "launch": 1,
            "kind": "job" if n % 2 else "workspace",
            "project_uid": project.uid,
            "project_slug": project.slug,
            "owner_uid": person.uid,
            "owner_name": person.username,
            "cluster_key": "east",
            "flavor": _KINDS[n % 3][0],
        }
        Interval.objects.create(**whose, name=f"train-{n}", gpus=gpus, started_at=at)
        if waits:
            begun = at - timedelta(minutes=20)
            Wait.objects.create(**whose | {"launch": 2}, gpus=waits, began_at=begun)
        if percent is not None:
            later = at + timedelta(minutes=30)  # pictures are taken for a while
            Sample.objects.create(uid=UUID(int=n + 1), at=later, gpu_utilisation=percent)


def pages() -> list[tuple[str, str, str]]:
    day = (now() - timedelta(days=1)).date().isoformat()
    every = reverse("usage:all")
    return [
        ("olga", "usage-all", every),
        ("olga", "usage-all-people", f"{every}?by=person"),
        ("olga", "usage-all-hours", f"{every}?since={day}&by=flavor"),
        ("olga", "usage-all-empty", f"{every}?since=2020-01-01&until=2020-01-02"),
    ]
