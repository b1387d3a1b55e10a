"""The pages around the gate."""

from html import unescape
from typing import Any

import pytest
from django.test import Client

from clusters.models import Cluster
from runtime import gateway
from runtime.drivers.kubernetes.inspection import clean

pytestmark = pytest.mark.django_db


def page(client: Client, row: Any, part: str) -> Any:
    return client.get(f"/projects/vision/workspaces/{row.short_id}/{part}/")


def test_the_owner_has_a_terminal_and_files(workspace: Any, alice: Any, as_user: Any) -> None:
    answer = page(as_user(alice), workspace, "terminal")
    assert answer.status_code == 200
    body = answer.content.decode()
    assert f'data-socket="ws://gate.nb.localhost:8004/gate/terminal/{workspace.short_id}"' in body
    assert f"ssh -p 8005 {workspace.short_id}@localhost" in body
    policy = answer.headers["Content-Security-Policy"]
    assert "connect-src 'self' http://gate.nb.localhost:8004 ws://gate.nb.localhost:8004;" in policy
    assert "unsafe-inline" not in policy
    files = page(as_user(alice), workspace, "files").content.decode()
    assert f'data-url="http://gate.nb.localhost:8004/gate/files/{workspace.short_id}"' in files


def test_others_have_not(
    workspace: Any, bob: Any, charlie: Any, operator: Any, as_user: Any
) -> None:
    for part in ("terminal", "files"):
        assert page(as_user(bob), workspace, part).status_code == 403
        assert page(as_user(operator), workspace, part).status_code == 403
        assert page(as_user(charlie), workspace, part).status_code == 404


def test_a_visitor_who_was_let_in_has(workspace: Any, bob: Any, as_user: Any) -> None:
    from work.models import Share

    Share.objects.create(workload=workspace, user=bob)
    assert page(as_user(bob), workspace, "terminal").status_code == 200


def test_a_workspace_of_one_machine_is_sent_to_jupyterlab(
    workspace: Any, alice: Any, bob: Any, as_user: Any
) -> None:
    workspace.cluster_key = "local"
    workspace.save()
    for part in ("terminal", "files", "cluster"):
        assert b"JupyterLab has all of this" in page(as_user(alice), workspace, part).content
    assert page(as_user(bob), workspace, "terminal").status_code == 403
    ways = f"/api/v1/projects/vision/workspaces/{workspace.short_id}/ways"
    assert as_user(alice).get(ways).json()["terminal"] is None
    assert "Terminal</a>" not in page(as_user(alice), workspace, "events").content.decode()


OBJECT = {
    "kind": "Pod",
    "metadata": {"name": "p", "managedFields": [{"manager": "berth"}]},
    "spec": {
        "containers": [
            {
                "name": "main",
                "env": [
                    {"name": "A", "value": "private"},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
            }
        ]
    },
}


def test_objects_show_no_bookkeeping_and_others_no_values() -> None:
    mine = clean(OBJECT, for_owner=True)
    assert "managedFields" not in mine["metadata"]
    assert mine["spec"]["containers"][0]["env"][0]["value"] == "private"
    others = clean({"spec": {"template": OBJECT}, "metadata": {}}, for_owner=False)
    assert "private" not in str(others)
    assert OBJECT["metadata"]["managedFields"]


def test_the_page_shows_what_the_gate_tells(
    workspace: Any, bob: Any, alice: Any, as_user: Any, settings: Any, monkeypatch: Any
) -> None:
    asked: list[Any] = []

    def answer(payload: Any) -> Any:
        asked.append(dict(payload))
        event = {"at": "2026-01-01T00:00:00Z", "kind": "Warning", "reason": "Failed", "count": 3}
        return {
            "objects": [{"title": "Pod p", "yaml": "kind: Pod\n"}],
            "events": [{**event, "message": "no such image"}],
        }

    settings.BERTH_CLUSTER_PRIVATE_KEY = ["x"]
    monkeypatch.setitem(gateway._handlers, "workspace/objects", answer)
    body = page(as_user(bob), workspace, "cluster").content.decode()
    assert "kind: Pod" in body
    assert "no such image" in body
    page(as_user(alice), workspace, "cluster")
    assert [one["with_env"] for one in asked] == [False, True]
    assert asked[0]["pod"] == f"ws-{workspace.short_id}-0"


def test_the_clusters_events_say_when_they_were_as_every_page_does(
    workspace: Any, alice: Any, as_user: Any, settings: Any, monkeypatch: Any
) -> None:
    said = ("2026-01-01T00:00:00.000001Z", "2026-13-01T00:00:00Z", "")
    rows = [
        {"at": at, "kind": "Normal", "reason": "Pulled", "count": 1, "message": "m"} for at in said
    ]
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["x"]
    monkeypatch.setitem(
        gateway._handlers, "workspace/objects", lambda _payload: {"objects": [], "events": rows}
    )
    body = page(as_user(alice), workspace, "cluster").content.decode()
    assert 'datetime="2026-01-01T00:00:00+00:00" title="2026-01-01 00:00:00 UTC"' in body
    assert body.count("data-relative") == 1
    assert "<td>2026-13-01T00:00:00Z</td>" in body  # no time that is one: shown as it was told


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({}, ""),
        ({"more": True, "unread": False}, "Only the newest 2 events are shown."),
        ({"more": True, "unread": True}, "newer ones may be missing"),
    ],
)
def test_the_page_says_where_there_are_more_events_than_it_shows(
    told: dict[str, bool],
    sentence: str,
    workspace: Any,
    alice: Any,
    as_user: Any,
    settings: Any,
    monkeypatch: Any,
) -> None:
    event = {"kind": "Normal", "reason": "Pulled", "count": 1, "message": "m"}
    rows = [{**event, "at": f"2026-01-01T00:00:0{n}Z"} for n in range(2)]
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["x"]
    monkeypatch.setitem(
        gateway._handlers, "workspace/objects", lambda _: {"objects": [], "events": rows, **told}
    )
    body = page(as_user(alice), workspace, "cluster").content.decode()
    assert sentence in body
    assert ("Only the newest" in body or "may be missing" in body) == bool(sentence)


UNREACHED = "kubectl can't reach “K1” from outside yet"


def detail(client: Client, row: Any) -> str:
    answer = client.get(f"/projects/vision/workspaces/{row.short_id}/")
    return unescape(answer.content.decode()).partition("<main")[2]


def test_lines_for_kubectl_are_shown_only_where_a_kubeconfig_leads(
    workspace: Any, alice: Any, as_user: Any, settings: Any, monkeypatch: Any
) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["x"]
    monkeypatch.setitem(
        gateway._handlers, "workspace/objects", lambda _: {"objects": [], "events": []}
    )
    client = as_user(alice)

    def shown() -> list[bool]:
        objects = unescape(page(client, workspace, "cluster").content.decode())
        both = (detail(client, workspace), objects.partition("<main")[2])
        return [word in text for text in both for word in ("kubectl -n ", UNREACHED)]

    assert shown() == [True, False] * 2
    settings.BERTH_IN_CLUSTER = "k1"  # the address that is used here is one for pods
    assert shown() == [False, True] * 2
    Cluster.objects.update(options={"kube_api_url": "https://k1.example.org:6443"})
    assert shown() == [True, False] * 2


def test_a_visitor_is_shown_no_lines_for_kubectl_which_opens_ones_own_only(
    workspace: Any, alice: Any, bob: Any, as_user: Any
) -> None:
    from work.models import Share

    Share.objects.create(workload=workspace, user=bob)
    assert "kubectl exec" in detail(as_user(alice), workspace)
    visitors = detail(as_user(bob), workspace)
    assert f"ssh -p 8005 {workspace.short_id}@localhost" in visitors
    assert "kubectl" not in visitors


def test_a_gate_that_does_not_answer_is_a_sentence(
    workspace: Any, alice: Any, as_user: Any, settings: Any
) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = []
    settings.BERTH_GATE_INTERNAL_URL = "http://127.0.0.1:9"
    answer = page(as_user(alice), workspace, "cluster")
    assert answer.status_code == 200
    assert "does not answer" in answer.content.decode()


def test_the_ways_in_are_told_to_who_may_come_in(
    workspace: Any, alice: Any, bob: Any, charlie: Any, as_user: Any
) -> None:
    ways = f"/api/v1/projects/vision/workspaces/{workspace.short_id}/ways"
    said = as_user(alice).get(ways).json()
    assert said["exec"] == f"ws://localhost:8004/gate/exec/{workspace.short_id}"
    assert said["ssh"]["command"] == f"ssh -p 8005 {workspace.short_id}@localhost"
    assert said["kubectl"]["pod"] == f"ws-{workspace.short_id}-0"
    assert as_user(bob).get(ways).status_code == 403
    assert as_user(charlie).get(ways).status_code == 404
