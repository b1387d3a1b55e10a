"""What load balancers and Prometheus ask."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from clusters.models import Cluster
from common.clock import now
from common.ids import new_uid
from common.metrics import REGISTRY
from metrics.models import Sample
from portal.monitoring import DomainCollector
from usage.models import Interval, LedgerHour, LedgerProgress, Wait

pytestmark = pytest.mark.django_db


def test_livez_answers_without_signing_in() -> None:
    answer = Client().get("/livez")
    assert answer.status_code == 200
    assert answer.content == b"ok\n"


def test_readyz_stays_ready_and_names_what_is_down() -> None:
    answer = Client().get("/readyz")
    assert answer.status_code == 200
    body = answer.json()
    assert body["checks"]["database"] == "ok"
    assert body["checks"]["migrations"] == "ok"
    assert body["checks"]["machines"] == "down"  # nobody has looked at any machine
    assert body["status"] == "degraded"


def test_readyz_with_all_is_503_while_a_part_is_down() -> None:
    assert Client().get("/readyz?all=1").status_code == 503


def test_readyz_counts_a_machine_that_was_just_seen(settings: Any) -> None:
    Cluster.objects.create(key="x", name="X", reachable=True, checked_at=now())
    assert Client().get("/readyz").json()["checks"]["machines"] == "ok"


def test_metrics_answer_this_machine_with_numbers_of_the_product(project: Any) -> None:
    Client().get("/livez")
    text = Client().get("/metrics").content.decode()
    assert 'berth_objects{kind="project",phase="running"} 1.0' in text
    assert 'berth_http_requests_total{method="GET",status="2xx",view="livez"}' in text
    assert "berth_queue_waiting 0.0" in text


@pytest.mark.parametrize(
    "extra", [{"REMOTE_ADDR": "10.0.0.9"}, {"HTTP_X_FORWARDED_FOR": "1.2.3.4"}]
)
def test_metrics_refuse_other_machines_and_proxies(extra: dict[str, str]) -> None:
    assert Client().get("/metrics", **extra).status_code == 403


def test_a_replica_is_scraped_by_its_address(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["berth.example.org"]
    settings.BERTH_PUBLIC_URL = "https://berth.example.org"
    here = {"HTTP_HOST": "10.1.2.3:8000"}
    assert Client().get("/metrics", **here).status_code == 200
    assert Client().get("/metricsx", **here).status_code == 400


def test_metrics_with_a_token_demand_it(settings: Any) -> None:
    settings.BERTH_METRICS_TOKEN = "s3cret"
    assert Client().get("/metrics").status_code == 403
    answer = Client().get("/metrics", REMOTE_ADDR="10.0.0.9", HTTP_AUTHORIZATION="Bearer s3cret")
    assert answer.status_code == 200


def test_mail_is_a_part_that_says_what_is_wrong_with_it(settings: Any) -> None:
    from datetime import timedelta

    from common.clock import now
    from console.health import check_all
    from notifications.models import Mail

    def mail() -> tuple[bool, str]:
        (found,) = [check for check in check_all() if check.name == "mail"]
        return found.ok, found.message

    at = now()
    assert mail() == (True, "localhost")
    row = Mail.objects.create(
        to="a@example.org", kind="x", error="ConnectionRefusedError", created_at=at, due_at=at
    )
    assert mail() == (False, "The last mail was not sent: ConnectionRefusedError")
    Mail.objects.create(
        to="b@example.org", kind="x", created_at=at, due_at=at, sent_at=at + timedelta(seconds=1)
    )
    assert mail()[0]
    settings.EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
    row.refresh_from_db()
    assert "Not set up" in mail()[1]


def test_a_worker_that_makes_no_turn_is_down_and_a_duty_that_is_late_is_named() -> None:
    from datetime import timedelta

    import time_machine

    from console.health import check_all
    from runtime import leases

    def worker() -> tuple[bool, str]:
        (found,) = [check for check in check_all() if check.name == "worker"]
        return found.ok, found.message

    assert worker() == (False, "No worker has made a turn for 25 s.")
    assert Client().get("/readyz").json()["checks"]["worker"] == "down"
    leases.beat()
    for name, every in (("duty:mail", 5.0), ("duty:housekeeping", 3600.0)):
        held = leases.acquire(name, ttl_s=15.0)
        assert held
        held.turned(every)
        held.release()  # between two turns nobody holds it: that is no fault
    assert worker() == (True, "1 worker")
    with time_machine.travel(now() + timedelta(seconds=30), tick=False):
        assert worker()[0] is False
    with time_machine.travel(now() + timedelta(seconds=90), tick=False):
        leases.beat()
        assert worker() == (False, "Late: Sends mail")


def test_the_system_page_says_when_each_duty_ran_last(operator: Any, as_user: Any) -> None:
    from datetime import timedelta

    import time_machine

    from runtime import leases

    for name, every in (("duty:mail", 5.0), ("duty:housekeeping", 3600.0)):
        held = leases.acquire(name, ttl_s=15.0)
        assert held
        held.turned(every)

    def page() -> str:
        text = as_user(operator).get("/console/system/").content.decode()
        return str(text.partition(">Duties</h2>")[2].partition("</table>")[0])

    healthy = page()
    assert (healthy.count("On time"), healthy.count("Late")) == (2, 0)
    assert "Nobody" not in healthy
    assert "1 h" in healthy
    with time_machine.travel(now() + timedelta(minutes=5), tick=False):
        later = page()
    assert (later.count("On time"), later.count("Late")) == (1, 1)


def test_a_leased_duty_notes_its_turns() -> None:
    from portal.server.loops import Loop
    from runtime.models import Lease

    loop = Loop("mail", lambda: None, 5.0, leased=True)
    for _turn in range(2):
        assert loop._lead()
        loop._tell()
    row = Lease.objects.get(name="duty:mail")
    assert row.every_s == 5.0
    assert row.turned_at is not None
    loop._leave()


DASHBOARDS = sorted(Path(__file__).resolve().parents[2].glob("deploy/helm/berth/dashboards/*.json"))


def work(project: Any, alice: Any, gpus: int) -> dict[str, Any]:
    return {
        "uid": new_uid(),
        "launch": 1,
        "kind": "job",
        "project_uid": project.uid,
        "project_slug": project.slug,
        "owner_uid": alice.uid,
        "owner_name": alice.username,
        "cluster_key": "east",
        "gpus": gpus,
        "flavor": "h100",
    }


def test_c31_metrics_tell_what_is_requested_attached_and_utilised(project: Any, alice: Any) -> None:
    kinds = {"h100": {"total": 12, "largest": 8, "held": 2}}
    Cluster.objects.create(key="east", name="East", driver="kubernetes", kinds=kinds)
    busy = Interval.objects.create(**work(project, alice, 6), started_at=now())
    Sample.objects.create(uid=busy.uid, at=now(), gpu_utilisation=30)
    Interval.objects.create(**work(project, alice, 2), started_at=now())  # nobody measures it
    Wait.objects.create(**work(project, alice, 4), began_at=now())
    hour = now().replace(minute=0, second=0, microsecond=0)
    LedgerProgress.objects.create(until=hour)
    text = Client().get("/metrics").content.decode()
    whose = 'cluster="east",gpu="h100"'
    assert f"berth_gpus_supply{{{whose}}} 10.0" in text
    labels = f'{whose},kind="job",project="{project.slug}"'
    assert f"berth_gpus_requested{{{labels}}} 12.0" in text
    assert f"berth_gpus_attached{{{labels}}} 8.0" in text
    assert f"berth_gpus_measured{{{labels}}} 6.0" in text
    assert f"berth_gpu_utilisation_ratio{{{labels}}} 0.3" in text
    LedgerHour.objects.create(hour=hour, cluster_key="east", idle=7)  # is not closed
    Sample.objects.all().delete()
    text = Client().get("/metrics").content.decode()
    assert "berth_gpu_utilisation_ratio{" not in text
    assert 'berth_gpu_waste_seconds{cause="idle",lost="yes"} 0.0' in text


def test_dashboards_ask_for_what_is_exported_by_its_labels() -> None:
    known = {
        family.name: set(getattr(family, "_labelnames", ()))
        for family in [*DomainCollector().collect(), *REGISTRY.collect()]
    }
    assert len(DASHBOARDS) == 2
    for file in DASHBOARDS:
        board = json.loads(file.read_text())
        asked = [t["expr"] for panel in board["panels"] for t in panel["targets"]]
        asked += [v["query"] for v in board["templating"]["list"] if v["type"] == "query"]
        assert asked
        ids = [panel["id"] for panel in board["panels"]]
        assert len(set(ids)) == len(ids)
        for expression in asked:
            names = re.findall(r"\bberth_\w+", expression)
            assert names, expression
            assert set(names) <= known.keys(), expression
            labels = {
                word
                for group in re.findall(r"\b(?:by|without) \(([^)]*)\)", expression)
                for word in re.split(r",\s*", group)
            } | set(re.findall(r"(\w+)=~?\"", expression))
            assert labels <= set().union(*(known[name] for name in names)), expression
