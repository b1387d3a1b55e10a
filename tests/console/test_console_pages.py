"""Operators see and change; auditors see; everybody else gets nothing."""

import re
from html import unescape
from typing import Any

import pytest
from django.urls import reverse

from clusters.models import Claim, Cluster, Device, Flavor, Hold
from common.clock import now
from console.forms import PresetForm
from events.models import Event
from notebooks.models import Preset
from notifications.models import Announcement, Notification
from quotas.models import Limit
from tests.support.queries import fewest

pytestmark = pytest.mark.django_db

PAGES = [
    "overview",
    "users",
    "user-create",
    "projects",
    "presets",
    "preset-create",
    "machines",
    "workspaces",
    "queue",
    "audit",
    "audit-export",
    "announcements",
    "announcement-create",
    "system",
]
WRITING = {"user-create", "preset-create", "announcement-create"}


@pytest.mark.parametrize("name", PAGES)
def test_operators_see_every_page(name: str, as_user: Any, operator: Any, project: Any) -> None:
    answer = as_user(operator).get(reverse(f"console:{name}"))
    assert answer.status_code == 200


@pytest.mark.parametrize("name", PAGES)
def test_auditors_see_what_is_not_for_writing(
    name: str, as_user: Any, auditor: Any, project: Any
) -> None:
    expected = 403 if name in WRITING else 200
    assert as_user(auditor).get(reverse(f"console:{name}")).status_code == expected


@pytest.mark.parametrize("name", PAGES)
def test_members_see_no_console_page(name: str, as_user: Any, alice: Any) -> None:
    assert as_user(alice).get(reverse(f"console:{name}")).status_code in {403, 404}


def test_the_rail_shows_the_console_to_operators_only(
    as_user: Any, operator: Any, alice: Any
) -> None:
    page = as_user(operator).get(reverse("console:system")).content.decode()
    assert reverse("console:audit") in page
    assert "console" not in as_user(alice).get("/nothing-here").content.decode()


def test_a_made_person_gets_a_password_that_is_shown_once(as_user: Any, operator: Any) -> None:
    client = as_user(operator)
    answer = client.post(reverse("console:user-create"), {"username": "dora", "email": "d@x.org"})
    assert answer.status_code == 201
    from accounts.models import User

    dora = User.objects.get(username="dora")
    password = answer.context["password"]
    assert dora.check_password(password)
    assert password in answer.content.decode()
    assert password not in client.get(reverse("console:user", args=[dora.uid])).content.decode()


def test_a_wrong_username_comes_back_with_its_sentence(
    as_user: Any, operator: Any, alice: Any
) -> None:
    answer = as_user(operator).post(reverse("console:user-create"), {"username": "alice"})
    assert answer.status_code == 400
    assert "errorlist" in answer.content.decode()


def test_disabling_needs_the_typed_username(as_user: Any, operator: Any, bob: Any) -> None:
    client, url = as_user(operator), reverse("console:user-state", args=[bob.uid])
    assert client.post(url, {"confirm": "bobby"}).status_code == 422
    bob.refresh_from_db()
    assert bob.is_active
    assert client.post(url, {"confirm": "bob"}).status_code == 302
    bob.refresh_from_db()
    assert not bob.is_active
    client.post(url, {"state": "enable"})
    bob.refresh_from_db()
    assert bob.is_active


def test_the_last_operator_keeps_his_role(as_user: Any, operator: Any) -> None:
    url = reverse("console:user-role", args=[operator.uid])
    answer = as_user(operator).post(url, {"platform_role": ""})
    assert answer.status_code == 409
    operator.refresh_from_db()
    assert operator.platform_role == "operator"


def test_auditors_change_nothing(as_user: Any, auditor: Any, bob: Any) -> None:
    client = as_user(auditor)
    for name in ("user-state", "user-role", "user-password", "user-sessions"):
        assert client.post(reverse(f"console:{name}", args=[bob.uid])).status_code == 403
    bob.refresh_from_db()
    assert bob.is_active


def test_limits_show_what_follows_before_they_are_saved(
    as_user: Any, operator: Any, project: Any
) -> None:
    client, url = as_user(operator), reverse("console:limits", args=[project.uid])
    answer = client.post(url, {"gpus": "2", "memory_mib": "64", "preview": "1"})
    assert answer.status_code == 200
    assert answer.context["effects"]
    assert not Limit.objects.exists()
    assert client.post(url, {"gpus": "2", "memory_mib": "64"}).status_code == 302
    found = dict(Limit.objects.values_list("resource", "amount"))
    assert found == {"gpus": 2, "memory_mib": 64 * 1024}
    client.post(url, {"gpus": "", "memory_mib": "64"})
    assert dict(Limit.objects.values_list("resource", "amount")) == {"memory_mib": 64 * 1024}


def test_presets_are_made_changed_and_deleted_by_typed_name(as_user: Any, operator: Any) -> None:
    client = as_user(operator)
    fields = {
        "name": "Two GPUs",
        "environment": "jupyterlab",
        "cpu": "4",
        "memory": "16",
        "gpus": "2",
        "position": "5",
        "is_active": "on",
    }
    assert client.post(reverse("console:preset-create"), fields).status_code == 302
    preset = Preset.objects.get(slug="two-gpus")
    assert (preset.cpu_milli, preset.memory_mib, preset.gpus) == (4000, 16384, 2)
    url = reverse("console:preset", args=[preset.uid])
    assert client.post(url, {**fields, "gpus": "1"}).status_code == 302
    preset.refresh_from_db()
    assert preset.gpus == 1
    gone = reverse("console:preset-delete", args=[preset.uid])
    assert client.post(gone, {"confirm": "wrong"}).status_code == 422
    assert client.post(gone, {"confirm": "Two GPUs"}).status_code == 302
    assert not Preset.objects.exists()


def test_machines_say_who_holds_a_gpu_and_what_is_not_kept_apart(
    as_user: Any, auditor: Any, project: Any
) -> None:
    cluster = Cluster.objects.create(
        key="m1",
        name="Machine one",
        reachable=True,
        checked_at=now(),
        capacity={"cpu_milli": 8000, "memory_mib": 32768},
        isolation={"users": False, "memory": True},
    )
    held = Device.objects.create(
        cluster=cluster,
        uuid="GPU-1",
        name="H100",
        memory_mib=81920,
        memory_used_mib=40960,
        utilisation=73,
        seen_at=now(),
    )
    Device.objects.create(cluster=cluster, uuid="GPU-2", index=1, name="H100", memory_mib=81920)
    claim = Claim.objects.create(
        cluster=cluster,
        workload_uid=project.uid,
        workload_kind="workspace",
        project_uid=project.uid,
        asked_at=now(),
        granted_at=now(),
        cpu_milli=2000,
        memory_mib=4096,
        gpus=1,
    )
    Hold.objects.create(claim=claim, device=held)
    page = as_user(auditor).get(reverse("console:machines")).content.decode()
    assert "73 %" in page
    assert "unknown" in page  # the second GPU's utilisation is not invented
    assert "one circle of trust" in page
    assert "2 given, 32 at most" in page


def test_machines_are_searched_by_name_kind_and_holder(as_user: Any, auditor: Any) -> None:
    for key, kinds in (("m1", ("H100", "A2")), ("m2", ("L40S",))):
        row = Cluster.objects.create(key=key, name=f"Machine {key}", checked_at=now())
        for index, kind in enumerate(kinds):
            Device.objects.create(
                cluster=row, uuid=f"GPU-{key}-{index}", index=index, name=kind, memory_mib=81920
            )
    client, url = as_user(auditor), reverse("console:machines")

    def found(words: str) -> set[str]:
        page = client.get(url, {"q": words}).content.decode().partition('id="machines"')[2]
        return {
            text for text in ("Machine m1", "Machine m2", "H100", "A2<", "L40S") if text in page
        }

    assert found("") == {"Machine m1", "Machine m2", "H100", "A2<", "L40S"}
    assert found("MACHINE M1") == {"Machine m1", "H100", "A2<"}
    assert found("l40") == {"Machine m2", "L40S"}
    assert found("a2") == {"Machine m1", "A2<"}
    page = client.get(url, {"q": "a2"}).content.decode()
    assert "of 2 GPUs free" in page  # the machine's own number, whatever is searched for
    assert "Nothing matches" in client.get(url, {"q": "nope"}).content.decode()


def test_the_audit_log_is_filtered_and_exported_safely(
    as_user: Any, auditor: Any, operator: Any
) -> None:
    Event.objects.create(at=now(), verb="x.done", actor_name="mallory", target_name="=HYPER()")
    Event.objects.create(at=now(), verb="y.done", actor_name="olga", outcome="denied")
    client = as_user(auditor)
    page = client.get(reverse("console:audit"), {"verb": "x."}).content.decode()
    assert "x.done" in page
    assert "y.done" not in page
    body = b"".join(client.get(reverse("console:audit-export"), {"verb": "x."})).decode()
    assert "'=HYPER()" in body
    assert "y.done" not in body
    lines = client.get(reverse("console:audit-export"), {"format": "jsonl"})
    assert b'"verb": "y.done"' in b"".join(lines)


def test_the_chain_is_verified_on_demand(as_user: Any, auditor: Any) -> None:
    from datetime import timedelta

    from events.sealer import seal

    Event.objects.create(at=now(), verb="x.done")
    assert seal(settle=timedelta(0)) >= 1
    client = as_user(auditor)
    page = client.get(reverse("console:audit"))
    assert page.context["verdict"] is None
    page = client.get(reverse("console:audit"), {"verify": "1"})
    assert page.context["verdict"].is_whole
    assert "Verified" in page.content.decode()


def test_an_announcement_appears_on_every_page_and_goes(
    as_user: Any, operator: Any, alice: Any
) -> None:
    from notifications.selectors import forget_announcements

    client = as_user(operator)
    client.post(reverse("console:announcement-create"), {"message": "Tea", "severity": "warning"})
    row = Announcement.objects.get()
    forget_announcements()
    assert "Tea" in client.get(reverse("console:system")).content.decode()
    client.post(reverse("console:announcement-delete", args=[row.uid]))
    forget_announcements()
    assert "Tea" not in client.get(reverse("console:system")).content.decode()


@pytest.mark.parametrize("name", ["users", "projects", "workspaces", "audit", "presets"])
def test_lists_have_as_many_queries_for_many_rows_as_for_few(
    name: str,
    as_user: Any,
    operator: Any,
    make_user: Any,
    project: Any,
) -> None:
    from projects.models import Project

    for i in range(30):
        make_user(f"person{i}")
        Project.objects.create(slug=f"p{i}", name=f"P {i}")
        Preset.objects.create(slug=f"p{i}", name=f"P {i}")
        Event.objects.create(at=now(), verb="x.done")
    client = as_user(operator)
    url = reverse(f"console:{name}")
    assert client.get(url).status_code == 200
    assert fewest(lambda: client.get(url)) <= 14


def test_operators_stop_a_workspace_and_auditors_cannot(
    as_user: Any, operator: Any, auditor: Any, alice: Any, project: Any, principal: Any
) -> None:
    from tests.support.workspaces import workspace_launch

    Preset.objects.create(slug="lab", name="Lab")
    row = workspace_launch(principal=principal(alice), project=project)
    url = reverse("console:workspace-stop", args=[row.uid])
    page = as_user(operator).get(reverse("console:workspaces")).content.decode()
    assert url in page
    assert url not in as_user(auditor).get(reverse("console:workspaces")).content.decode()
    assert as_user(auditor).post(url).status_code == 403
    asked = as_user(operator).post(url, {"reason": " "})
    assert asked.status_code == 422
    text = asked.content.decode()
    assert "Reason (Alice is told it)" in text
    assert "This belongs to Alice." in text
    row.refresh_from_db()
    assert row.desired == "running"
    assert as_user(operator).post(url, {"reason": "The node is repaired"}).status_code == 302
    row.refresh_from_db()
    assert row.desired == "stopped"
    assert Event.objects.get(verb="workspace.stopped").message == "The node is repaired"


def test_sessions_and_tokens_are_ended_by_an_operator(
    as_user: Any, operator: Any, bob: Any, project: Any
) -> None:
    from accounts.models import ApiToken

    token = ApiToken.objects.create(user=bob, name="t", prefix="berth_x", digest="d")
    browser = as_user(bob)
    assert browser.get(reverse("projects:list")).status_code == 200
    url = reverse("console:user-sessions", args=[bob.uid])
    client = as_user(operator)
    assert client.post(url, {"token": str(token.uid)}).status_code == 302
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert client.post(url).status_code == 302
    assert browser.get(reverse("projects:list")).status_code == 302  # to the sign-in page


def test_the_form_of_presets_shows_the_usual_and_folds_the_rest(
    as_user: Any, operator: Any
) -> None:
    Flavor.objects.create(name="h100-80", label="H100")
    form = PresetForm()
    named = [name for row in form.HEAD for name in ([row] if isinstance(row, str) else row)]
    named += [name for _title, _text, names in form.GROUPS for name in names]
    assert sorted(named) == sorted(form.fields)
    assert not any(is_open for *_words, is_open in form.groups())
    html = as_user(operator).get(reverse("console:preset-create")).content.decode()
    assert html.count('<details class="option-group">') == len(form.GROUPS)


def test_a_group_with_a_wrong_or_chosen_value_is_open() -> None:
    wrong = PresetForm({"name": "x", "position": "many"})
    assert [is_open for *_words, is_open in wrong.groups()] == [True, False, False, True]
    chosen = PresetForm(initial={"idle_stop_minutes": 30})
    assert [is_open for *_words, is_open in chosen.groups()] == [False, False, True, False]


def filters_of(client: Any, name: str, **query: str) -> dict[str, str]:
    """What the form of filters sends when nothing is typed into it."""
    page = client.get(reverse(f"console:{name}"), query).content.decode()
    form = re.search(r'<form class="filters".*?</form>', page, re.DOTALL)
    assert form
    fields = re.findall(r"<(?:input|select)\b[^>]*>", form[0])
    found = [dict(re.findall(r'\b(name|value)="([^"]*)"', field)) for field in fields]
    return {field["name"]: unescape(field.get("value", "")) for field in found if "name" in field}


@pytest.mark.parametrize("name", ["users", "workspaces", "audit"])
def test_changing_a_filter_keeps_the_order_and_begins_at_the_first_page(
    name: str, as_user: Any, operator: Any
) -> None:
    client = as_user(operator)
    sent = filters_of(client, name, sort='-"name', page="3")
    assert sent["sort"] == '-"name'
    assert "page" not in sent
    assert "sort" not in filters_of(client, name)


def test_an_operator_holds_back_and_cancels_what_waits(
    launch: Any, settle: Any, alice: Any, operator: Any, auditor: Any, as_user: Any
) -> None:
    from clusters.models import Claim

    row = settle(launch(alice))
    claim = Claim.objects.get(workload_uid=row.uid)
    Claim.objects.filter(pk=claim.pk).update(granted_at=None)
    page = as_user(operator).get(reverse("console:queue")).content.decode()
    assert row.get_absolute_url() in page
    assert "Hold back" in page
    assert "Hold back" not in as_user(auditor).get(reverse("console:queue")).content.decode()

    def press(act: str, who: Any = operator, **said: str) -> int:
        url = reverse(f"console:queue-{act}", kwargs={"uid": row.uid})
        return as_user(who).post(url, said).status_code

    assert press("hold", auditor) == 403
    assert press("hold") == 422
    claim.refresh_from_db()
    assert claim.held_at is None
    assert press("hold", reason="It is broken.") == 302
    claim.refresh_from_db()
    assert claim.held_at is not None
    told = Notification.objects.get(user=alice, kind="work.held")
    assert told.params["reason"] == Event.objects.get(verb="queue.held").message == "It is broken."
    assert press("release") == 302
    claim.refresh_from_db()
    assert claim.held_at is None
    assert claim.granted_at is not None  # there is room
    assert press("hold", reason="It is broken.") == 404
    assert press("cancel") == 422  # its owner will ask
    assert press("cancel", reason="The machine goes down at six.") == 302
    row.refresh_from_db()
    assert row.desired == "stopped"


def test_a_machine_shows_what_is_given_what_may_be_given_and_what_is_in_use(
    launch: Any, settle: Any, alice: Any, operator: Any, as_user: Any, settings: Any
) -> None:
    from clusters.models import Cluster
    from common.clock import now
    from metrics.models import Sample

    settings.BERTH_CPU_OVERCOMMIT = 4
    row = settle(launch(alice, cpu_milli=3000))
    Cluster.objects.filter(key=row.cluster_key).update(
        capacity={"cpu_milli": 2000, "memory_mib": 16384}
    )
    Sample.objects.create(uid=row.uid, at=now(), cpu_milli=400, memory_mib=1024)
    page = as_user(operator).get(reverse("console:machines")).content.decode()
    assert "3 given, 8 at most" in page
    assert "0.4 of 2 in use" in page
    assert "bar-danger" not in page
