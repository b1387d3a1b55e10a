"""Limits refuse in the transaction of the intent and free what is seen to be gone."""

import uuid
from typing import Any

import pytest
from django.db import transaction
from django.test.utils import CaptureQueriesContext

from clusters import registry
from common.errors import Conflict, Invalid, LimitExceeded
from events.models import Event
from notifications.kinds import text_of
from notifications.models import Notification
from quotas import listeners, selectors, services
from quotas.choices import words
from quotas.models import Limit, Reservation
from tests.support.workspaces import workspace_delete, workspace_resume, workspace_stop

pytestmark = pytest.mark.django_db


def reserve(principal: Any, project: Any, owner: Any, **amounts: int) -> uuid.UUID:
    uid = uuid.uuid4()
    with transaction.atomic():
        services.reserve(
            principal=principal(owner), project=project, owner=owner, uid=uid, amounts=amounts
        )
    return uid


def held(project: Any, resource: str = "gpus") -> int:
    return sum(
        Reservation.objects.filter(project=project, resource=resource).values_list(
            "amount", flat=True
        )
    )


def test_nothing_is_limited_until_somebody_says_so(project: Any, bob: Any, principal: Any) -> None:
    reserve(principal, project, bob, gpus=1000, cpu_milli=10**9)


def test_a_full_project_refuses_with_the_numbers(
    project: Any, alice: Any, bob: Any, principal: Any
) -> None:
    Limit.objects.create(project=project, resource="gpus", amount=4)
    reserve(principal, project, alice, gpus=3)
    with pytest.raises(LimitExceeded) as refused:
        reserve(principal, project, bob, gpus=2, cpu_milli=1000)
    assert refused.value.extra == {
        "resource": "gpus",
        "scope": "project",
        "limit": 4,
        "used": 3,
        "asked": 2,
    }
    assert "3 GPU taken, 2 GPU asked for" in refused.value.message
    assert held(project) == 3
    assert held(project, "cpu_milli") == 0
    reserve(principal, project, bob, gpus=1)


def test_limits_of_a_member_and_of_a_person_everywhere(
    project: Any, bob: Any, alice: Any, principal: Any, make_user: Any
) -> None:
    from projects.models import Membership, Project

    other = Project.objects.create(slug="other", name="Other")
    Membership.objects.create(project=other, user=bob, role="member")
    Limit.objects.create(project=project, user=bob, resource="gpus", amount=2)
    Limit.objects.create(user=bob, resource="gpus", amount=3)
    reserve(principal, project, bob, gpus=2)
    with pytest.raises(LimitExceeded, match="Your limit in this project"):
        reserve(principal, project, bob, gpus=1)
    with pytest.raises(LimitExceeded, match="in all projects together"):
        reserve(principal, other, bob, gpus=2)
    reserve(principal, other, bob, gpus=1)
    reserve(principal, project, alice, gpus=5)


def test_a_limit_of_one_kind_of_gpu_leaves_the_others_alone(
    project: Any, bob: Any, principal: Any
) -> None:
    from quotas.policies import amounts_of
    from runtime.spec import Resources

    Limit.objects.create(project=project, resource="gpus:h100-80", amount=1)

    def ask(flavor: str) -> None:
        amounts = amounts_of(Resources(gpus=1), [flavor] if flavor else [])
        with transaction.atomic():
            services.reserve(
                principal=principal(bob),
                project=project,
                owner=bob,
                uid=uuid.uuid4(),
                amounts=amounts,
            )

    ask("h100-80")
    ask("a100-40")
    ask("")
    with pytest.raises(LimitExceeded):
        ask("h100-80")


def test_editing_replaces_what_is_held_and_shrinking_always_works(
    project: Any, bob: Any, principal: Any
) -> None:
    Limit.objects.create(project=project, resource="gpus", amount=4)
    uid = reserve(principal, project, bob, gpus=4)
    asked: dict[str, Any] = {"principal": principal(bob), "project": project, "owner": bob}
    Limit.objects.update(amount=1)
    with transaction.atomic():
        services.reserve(**asked, uid=uid, amounts={"gpus": 3})
    assert held(project) == 3
    with pytest.raises(LimitExceeded), transaction.atomic():
        services.reserve(**asked, uid=uid, amounts={"gpus": 4})
    assert held(project) == 3


@pytest.mark.django_db(transaction=True)
def test_reserving_outside_the_transaction_of_the_intent_is_a_mistake(
    project: Any, bob: Any, principal: Any
) -> None:
    with pytest.raises(RuntimeError, match="transaction of the intent"):
        services.reserve(
            principal=principal(bob), project=project, owner=bob, uid=uuid.uuid4(), amounts={}
        )


def test_an_archived_project_starts_nothing(project: Any, bob: Any, principal: Any) -> None:
    from common.clock import now

    project.archived_at = now()
    project.save()
    with pytest.raises(Conflict, match="archived"):
        reserve(principal, project, bob, gpus=1)


@pytest.mark.parametrize("amounts", [{"bananas": 1}, {"gpus": -1}, {"gpus:": 1}, {"gpus": 2**60}])
def test_odd_amounts_are_refused(
    project: Any, bob: Any, principal: Any, amounts: dict[str, int]
) -> None:
    with pytest.raises(Invalid):
        reserve(principal, project, bob, **amounts)


# --- freed when seen to be gone ---------------------------------------------------------------


def test_a_stopping_workspace_holds_its_share_until_it_is_gone(
    launch: Any, settle: Any, alice: Any, project: Any, principal: Any
) -> None:
    row = settle(launch(alice))
    assert held(project, "workspaces") == 1
    workspace_stop(principal=principal(alice), workspace=row)
    assert held(project, "workspaces") == 1
    settle(row)
    assert row.phase == "stopped"
    assert held(project, "workspaces") == 0
    workspace_resume(principal=principal(alice), workspace=row)
    assert held(project, "workspaces") == 1


def test_a_workspace_that_fails_or_is_deleted_frees_its_share(
    launch: Any, settle: Any, alice: Any, project: Any, principal: Any
) -> None:
    row = settle(launch(alice))
    registry.driver_for(row.cluster_key).exit(str(row.uid), code=3)
    from common.clock import now

    type(row).objects.filter(pk=row.pk).update(next_reconcile_at=now())
    settle(row)
    assert (row.phase, held(project, "workspaces")) == ("failed", 0)
    second = settle(launch(alice))
    workspace_delete(principal=principal(alice), workspace=second, typed_name=second.name)
    settle()
    assert held(project, "workspaces") == 0


def test_a_late_release_of_an_earlier_launch_frees_nothing_of_the_next(
    project: Any, bob: Any, principal: Any
) -> None:
    uid = uuid.uuid4()
    with transaction.atomic():
        services.reserve(
            principal=principal(bob),
            project=project,
            owner=bob,
            uid=uid,
            amounts={"gpus": 1},
            launch=2,
        )
    assert services.release(uid, up_to_launch=1) == 0
    assert held(project) == 1
    assert services.release(uid, up_to_launch=2) == 1


def test_repair_frees_what_belongs_to_nothing_and_keeps_what_runs(
    launch: Any, settle: Any, alice: Any, bob: Any, project: Any, principal: Any
) -> None:
    row = settle(launch(alice))
    reserve(principal, project, bob, gpus=1)
    assert listeners.repair() == 1
    assert held(project) == 0
    assert held(project, "workspaces") == 1
    type(row).objects.filter(pk=row.pk).update(phase="stopped", desired="stopped")
    registry_claims_gone(row)
    assert listeners.repair() == 1
    assert held(project, "workspaces") == 0


def registry_claims_gone(row: Any) -> None:
    from clusters.models import Claim

    Claim.objects.filter(workload_uid=row.uid).delete()


# --- setting and showing ------------------------------------------------------------------------


def put(client: Any, url: str, body: Any) -> Any:
    return client.put(url, body, content_type="application/json")


def test_operators_set_limits_and_are_told_what_follows(
    project: Any, alice: Any, bob: Any, operator: Any, principal: Any, as_user: Any
) -> None:
    reserve(principal, project, bob, gpus=3)
    url = "/api/v1/quotas/projects/vision"
    assert put(as_user(alice), url, {"gpus": 9}).status_code == 403
    client = as_user(operator)
    plan = put(client, f"{url}?plan=1", {"gpus": 2}).json()
    assert (plan[0]["used"], plan[0]["over"]) == (3, True)
    assert "nothing more starts" in plan[0]["sentence"]
    assert not Limit.objects.exists()
    assert put(client, url, {"gpus": 2}).status_code == 200
    assert held(project) == 3
    assert client.get(url).json() == {"gpus": 2}
    assert Event.objects.filter(verb="quota.changed").count() == 1
    told = set(Notification.objects.values_list("user__username", "kind"))
    assert told == {("alice", "quota.lowered"), ("mona", "quota.lowered")}
    put(client, url, {"memory_mib": 4096, "cpu_milli": 2500})
    put(client, url, {"cpu_milli": 1500})
    texts = [text_of(row.kind, row.params) for row in Notification.objects.filter(user=alice)]
    assert texts[0].endswith("Limits of “Vision” are new: GPUs: 2 GPU (no limit before)")
    assert "Memory: 4\N{NO-BREAK SPACE}GiB (no limit before)" in texts[1]
    assert texts[2].endswith("CPU: 1.5 CPU (2.5 CPU before)")
    put(client, url, {"cpu_milli": None, "memory_mib": None})
    with pytest.raises(LimitExceeded):
        reserve(principal, project, bob, gpus=1)
    put(client, url, {"gpus": None})
    reserve(principal, project, bob, gpus=1)


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"gpus": -1},
        {"gpus": 1.5},
        {"gpus": "4"},
        {"gpus": True},
        {"bananas": 1},
        {"gpus": 2**60},
    ],
)
def test_wrong_limits_are_refused(project: Any, operator: Any, as_user: Any, body: Any) -> None:
    assert put(as_user(operator), "/api/v1/quotas/projects/vision", body).status_code == 400
    assert not Limit.objects.exists()


def test_limits_of_members_and_people_by_api(
    project: Any, bob: Any, operator: Any, auditor: Any, as_user: Any
) -> None:
    client = as_user(operator)
    put(client, "/api/v1/quotas/projects/vision/members/bob", {"gpus": 1})
    put(client, "/api/v1/quotas/users/bob", {"workspaces": 2})
    assert as_user(auditor).get("/api/v1/quotas/users/bob").json() == {"workspaces": 2}
    shares = as_user(bob).get("/api/v1/projects/vision/quota").json()
    mine = {(s["scope"], s["resource"]): s["limit"] for s in shares if s["scope"] != "project"}
    assert mine == {("member", "gpus"): 1, ("user", "workspaces"): 2}


def test_what_is_used_and_left_costs_two_queries_whatever_the_rows(
    project: Any, alice: Any, bob: Any, principal: Any
) -> None:
    from django.db import connection

    Limit.objects.create(project=project, resource="gpus", amount=100)
    for _ in range(20):
        reserve(principal, project, bob, gpus=1, cpu_milli=100)
    with CaptureQueriesContext(connection) as captured:
        shares = {s.resource: s for s in selectors.Account(project, alice).shares()}
    assert len(captured) == 2
    assert (shares["gpus"].used, shares["gpus"].left) == (20, 80)


def test_a_refusal_through_the_api_is_a_409_with_the_numbers_and_is_recorded(
    launch: Any, project: Any, alice: Any, as_user: Any, presets: Any
) -> None:
    Limit.objects.create(project=project, resource="workspaces", amount=1)
    launch(alice)
    response = as_user(alice).post(
        "/api/v1/projects/vision/workspaces",
        {"preset": "jupyterlab"},
        content_type="application/json",
    )
    assert response.status_code == 409, response.content
    body = response.json()
    assert (body["code"], body["limit"], body["used"]) == ("limit-exceeded", 1, 1)


@pytest.mark.parametrize(
    ("amount", "said"), [(1025, "1 GiB"), (1536, "1.5 GiB"), (512, "512 MiB"), (2**21, "2 TiB")]
)
def test_memory_is_said_as_on_all_pages(amount: int, said: str) -> None:
    assert words("memory_mib", amount).replace("\N{NO-BREAK SPACE}", " ") == said
