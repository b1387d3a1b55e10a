"""What is said of a cluster that refuses or fails: never the bare word that came from it."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import registry
from clusters.models import Cluster
from clusters.services import health_refresh
from common.clock import now
from console.words import answer_words
from portal.server.duties import Health
from tests.drivers.kubernetes.stub import Stub

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(stub: Stub, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Cluster:
    settings.BERTH_ALLOW_PRIVATE_CLUSTERS = True
    driver = stub.driver()
    monkeypatch.setattr(registry, "driver_for", lambda _key: driver)
    return Cluster.objects.create(key="east", name="East", driver="kubernetes", reachable=True)


def answering(status: int, word: str, at: str) -> Any:
    def fault(handler: Any, _method: str, path: str, _query: Any) -> bool:
        if not path.startswith(at):
            return False
        handler.refuse(status, word)
        return True

    return fault


def test_a_refused_credential_is_said_so_and_asked_once(stub: Stub, cluster: Cluster) -> None:
    stub.fault = answering(401, "Unauthorized", "/")
    seen = health_refresh(key="east")
    assert not seen.reachable
    assert seen.message == answer_words(seen.message)
    assert "does not accept Berth's credential; an operator can replace it" in seen.message
    assert len(stub.seen) == 1


def test_an_error_of_the_server_says_whose_it_is(stub: Stub, cluster: Cluster) -> None:
    stub.fault = answering(403, "Forbidden", "/readyz")
    assert health_refresh(key="east").message == (
        "The cluster answers with an error (403): Forbidden"
    )


def test_a_new_credential_is_tried_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refresh(*, key: str) -> None:
        asked.append(key)
        Cluster.objects.filter(key=key).update(checked_at=now())

    monkeypatch.setattr("portal.server.duties.clusters.health_refresh", refresh)
    health = Health()
    for _look in range(2):
        health.tick()
    assert asked == ["east"]
    Cluster.objects.update(checked_at=None)  # as a replaced credential leaves it
    health.tick()
    assert asked == ["east", "east"]


@pytest.mark.parametrize(
    ("status", "may", "known"),
    [(200, True, ("pytorchjob",)), (200, False, ()), (403, True, None)],
)
def test_an_operator_counts_where_our_roles_reach_it(
    stub: Stub, status: int, may: bool, known: tuple[str, ...] | None
) -> None:
    """What was known of a cluster stands while it refuses to say."""

    def fault(handler: Any, _method: str, path: str, _query: Any) -> bool:
        path = path.partition("?")[0]
        if path == "/apis":
            handler.say(200, {"groups": [{"versions": [{"groupVersion": "kubeflow.org/v1"}]}]})
        elif path == "/apis/kubeflow.org/v1":
            handler.say(status, {"resources": [{"name": "pytorchjobs"}, {"name": "notebooks"}]})
        elif path.endswith("selfsubjectaccessreviews"):
            asked = handler.given["spec"]["resourceAttributes"]
            right = {"verb": "list", "group": "kubeflow.org", "resource": "pytorchjobs"}
            handler.say(201, {"status": {"allowed": may and asked == right}})
        else:
            return False
        return True

    stub.fault = fault
    assert stub.driver().probe().operators == known
