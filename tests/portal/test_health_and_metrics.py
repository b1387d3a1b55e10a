"""What load balancers and Prometheus ask."""

from typing import Any

import pytest
from django.test import Client

from clusters.models import Cluster
from common.clock import now

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
