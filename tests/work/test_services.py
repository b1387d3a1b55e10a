"""What holds for every kind on the services of ``work``: by whom, how often, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from common.errors import Conflict, Forbidden, Invalid, LimitExceeded, NotFound
from events.models import Event
from quotas.models import Reservation
from tests.work.conftest import LEAST, SIZED, UNNAMED
from work import selectors, services
from work.models import Step, Workload

pytestmark = pytest.mark.django_db
Make = Callable[..., Any]
MAKERS, ENDERS = {"alice", "bob", "mona"}, {"alice", "mona"}
sized = pytest.mark.parametrize("kind", SIZED, indirect=True)
PEOPLE = ("alice", "bob", "vera", "mona", "charlie")


def outcome(act: Callable[[], Any]) -> str:
    try:
        act()
    except (Forbidden, NotFound) as error:
        return type(error).__name__
    return "done"


def verbs(row: Any) -> list[str]:
    events = Event.objects.filter(target_uid=row.uid).order_by("id")
    return list(events.values_list("verb", flat=True))


@pytest.mark.parametrize("verb", ["create", "start", "stop", "edit", "delete", "plan", "apply"])
@pytest.mark.parametrize("who", PEOPLE)
def test_a1_each_person_may_what_their_role_says(
    who: str,
    verb: str,
    make: Make,
    kind: Any,
    project: Any,
    principal: Any,
    alice: Any,
    request: pytest.FixtureRequest,
) -> None:
    """Of alice's: she may all, a manager ends it, others see it, a stranger does not find it.

    What is managed, a manager may change too.
    """
    row, changers = make(alice, name="mine"), {"alice", "mona"} if kind.managed else {"alice"}
    me = principal(request.getfixturevalue(who))
    new: dict[str, Any] = {"principal": me, "project": project, "kind": kind}
    its: dict[str, Any] = {"principal": me, "row": row}
    document = services.manifest_of(row, private=False)
    document["metadata"]["name"] = "another"
    acts: dict[str, tuple[Callable[[], Any], set[str]]] = {
        "create": (lambda: services.workload_create(**new, said=LEAST[kind.word]), MAKERS),
        "plan": (lambda: services.workload_plan(**new, said=LEAST[kind.word]), MAKERS),
        "apply": (lambda: services.manifest_plan(**new, document=document), MAKERS),
        "start": (lambda: services.workload_start(**its), changers),
        "edit": (lambda: services.workload_edit(**its, said={"name": "new"}), changers),
        "stop": (lambda: services.workload_stop(**its, said="why"), ENDERS),
        "delete": (lambda: services.workload_delete(**its, said="why"), ENDERS),
    }
    act, may = acts[verb]
    if verb == "apply" and kind.word == "job":
        document["spec"]["command"] = ["true"]  # private: not in what others are told
    wanted = "done" if who in may else "NotFound" if who == "charlie" else "Forbidden"
    assert outcome(act) == wanted
    assert selectors.may_end(me, row) == (who in ENDERS)
    assert selectors.may_change(me, row) == (who in changers)
    seen = selectors.visible_to(me, kind, project).filter(pk=row.pk).exists()
    assert seen == (who != "charlie")


def test_it_starts_stops_starts_again_and_goes(
    make: Make, kind: Any, principal: Any, settle: Any, alice: Any
) -> None:
    row = make(alice)
    me = principal(alice)
    assert (row.phase, row.launch, row.kind, row.name) == (
        "running",
        1,
        kind.word,
        UNNAMED[kind.word],
    )
    assert services.workload_start(principal=me, row=row).launch == 1  # a second press
    services.workload_stop(principal=me, row=row)
    row = settle(row)
    assert (row.phase, row.stop_reason) == ("stopped", kind.asked)
    assert not Reservation.objects.filter(workload_uid=row.uid).exists()
    row = settle(services.workload_start(principal=me, row=row))
    assert (row.phase, row.launch, row.stop_reason) == ("running", 2, "")
    assert Reservation.objects.filter(workload_uid=row.uid).exists()
    services.workload_delete(principal=me, row=row, typed_name=row.name)
    settle()
    assert not selectors.visible_to(me, kind).exists()
    done = [verb for verb in verbs(row) if "ended" not in verb]
    stopped = kind.stopped.get(kind.asked, "stopped")
    first = (kind.made,) if kind.launch is None else (kind.made, kind.started)
    words = (*first, stopped, kind.started, "deleted")
    assert done == [f"{kind.word}.{word}" for word in words]


def test_e13_one_press_sent_twice_makes_one_and_an_old_press_is_another(
    make: Make, kind: Any, project: Any, principal: Any, alice: Any, bob: Any
) -> None:
    said = LEAST[kind.word]
    new: dict[str, Any] = {"project": project, "kind": kind, "said": said, "nonce": "a-press"}
    first, again = (services.workload_create(principal=principal(alice), **new) for _ in range(2))
    assert first.pk == again.pk
    assert services.workload_create(principal=principal(bob), **new).pk != first.pk
    old = first.created_at - 2 * services.launch.NONCE_KEPT
    Workload.objects.filter(pk=first.pk).update(created_at=old)
    assert services.workload_create(principal=principal(alice), **new).pk != first.pk
    assert Workload.objects.filter(kind=kind.word).count() == 3


def test_the_other_half_of_a_double_click_that_was_faster_is_returned(
    make: Make, kind: Any, project: Any, principal: Any, alice: Any, monkeypatch: Any
) -> None:
    """Both asked whether it is there before either was written."""
    from work.services import launch

    new: dict[str, Any] = {"project": project, "kind": kind, "said": LEAST[kind.word]}
    made = services.workload_create(principal=principal(alice), **new, nonce="press")
    asked, real = [], launch._made_by

    def late(*given: Any) -> Any:
        asked.append(given)
        return None if len(asked) == 1 else real(*given)

    monkeypatch.setattr(launch, "_made_by", late)
    again = services.workload_create(principal=principal(alice), **new, nonce="press")
    assert (again.pk, len(asked)) == (made.pk, 2)


def test_a_second_name_is_refused_and_an_unnamed_one_finds_the_next(
    make: Make, kind: Any, project: Any, principal: Any, alice: Any, bob: Any
) -> None:
    make(alice, name="mine")
    with pytest.raises(Invalid) as refused:
        make(alice, name="mine")
    assert list(refused.value.fields) == ["name"]
    plan = services.workload_plan(
        principal=principal(alice),
        project=project,
        kind=kind,
        said=LEAST[kind.word] | {"name": "mine"},
    )
    assert (plan.allowed, plan.refusal) == (False, refused.value.message)
    first = UNNAMED[kind.word]
    assert [make(alice).name for _ in range(2)] == [first, f"{first} 2"]
    other = make(alice, name="other")
    with pytest.raises(Invalid):
        services.workload_edit(principal=principal(alice), row=other, said={"name": "mine"})
    if kind.model.NAMES_PER_OWNER:
        assert make(bob, name="mine").name == "mine"
    else:
        with pytest.raises(Invalid):
            make(bob, name="mine")


@sized
def test_c3_what_a_limit_leaves_no_room_for_is_refused_with_its_sentence(
    make: Make, kind: Any, project: Any, principal: Any, alice: Any
) -> None:
    from quotas.models import Limit

    Limit.objects.create(project=project, resource="cpu_milli", amount=1500)
    said = LEAST[kind.word] | {"cpu_milli": 2000, "name": "large"}
    plan = services.workload_plan(principal=principal(alice), project=project, kind=kind, said=said)
    assert not plan.allowed
    assert "limit on CPU" in plan.refusal
    effect = next(one for one in plan.quota if one.resource == "cpu_milli")
    assert (effect.used, effect.after, effect.limit) == (0, 2000, 1500)
    with pytest.raises(LimitExceeded) as refused:
        make(alice, **said)
    assert refused.value.message == plan.refusal
    assert not Workload.objects.exists()
    assert not Reservation.objects.exists()
    assert make(alice, cpu_milli=1500).phase == "running"


def test_nothing_starts_in_an_archived_project_and_what_runs_there_stops(
    make: Make, kind: Any, project: Any, principal: Any, settle: Any, alice: Any
) -> None:
    from projects.services import life

    row = make(alice)
    life.project_archive(principal=principal(alice), project=project, confirm_stop=True)
    row = settle(row)
    assert (row.phase, row.stop_reason) == ("stopped", "project-archived")
    project.refresh_from_db()
    for act in (
        lambda: make(alice),
        lambda: services.workload_start(
            principal=principal(alice), row=kind.model.objects.get(pk=row.pk)
        ),
    ):
        with pytest.raises(Conflict) as refused:
            act()
        assert refused.value.code == "project-archived"


def test_a3_the_work_of_who_is_disabled_or_left_stops_and_stays(
    make: Make, kind: Any, project: Any, settle: Any, alice: Any, bob: Any
) -> None:
    from accounts import hooks as accounts
    from projects import hooks as projects

    hers, his = make(alice), make(bob)
    projects.member_left(project, bob, None)
    accounts.user_disabled(alice, None)
    rows = {row.pk: settle(row) for row in (hers, his)}
    assert rows[hers.pk].stop_reason == "owner-disabled"
    assert rows[his.pk].stop_reason == "owner-left"
    assert {row.phase for row in rows.values()} == {"stopped"}


def test_a3_a_launch_that_was_allowed_a_moment_before_stops_by_the_clock(
    make: Make, kind: Any, project: Any, settle: Any, bob: Any
) -> None:
    from projects.models import Membership

    row = make(bob)
    assert services.limits_enforce() == 0
    Membership.objects.filter(user=bob).delete()
    assert services.limits_enforce() == 1
    assert settle(row).stop_reason == "owner-left"
    assert services.limits_enforce() == 0


def test_what_waits_in_a_project_is_not_told_as_running(project: Any, alice: Any) -> None:
    from jobs.models import Job
    from projects import hooks as projects
    from tests.support.workloads import insert

    phases = ["running", "starting", "pending", "pending", "pending", "stopped"]
    insert(
        Job(project=project, owner=alice, name=f"j{n}", command=["x"], launch=1, phase=phase)
        for n, phase in enumerate(phases)
    )
    (told,) = [one for one in projects.summaries(project) if one.kind == "job"]
    assert told.text == "6 jobs, 2 running, 3 waiting"
    assert told.running == 5  # all of them end with the project


def test_a_project_tells_what_it_holds_and_takes_it_along(
    make: Make, kind: Any, project: Any, settle: Any, alice: Any
) -> None:
    from projects import hooks as projects

    make(alice, name="mine")
    told = {one.kind: one for one in projects.summaries(project)}[kind.word]
    assert (told.count, told.running, told.names) == (1, 1, ("mine",))
    assert told.text.startswith(told.running_text)
    projects.request_delete(project, None)
    settle()
    assert kind.word not in {one.kind for one in projects.summaries(project)}


def test_who_ends_what_is_another_persons_says_why_and_the_owner_is_told(
    make: Make, kind: Any, principal: Any, settle: Any, alice: Any, mona: Any
) -> None:
    from notifications.models import Notification

    row, me = make(alice), principal(mona)
    for act in (services.workload_stop, services.workload_delete):
        with pytest.raises(Invalid) as refused:
            act(principal=me, row=row)
        assert list(refused.value.fields) == ["reason"]
    services.workload_stop(principal=me, row=row, said="its turn")
    services.workload_delete(principal=me, row=row, said="too long")
    told = Notification.objects.filter(user=alice).order_by("id")
    assert [one.kind for one in told] == [
        kind.stop_notices.get(kind.asked, kind.stop_notice),
        "work.deleted",
    ]
    assert "its turn" in told[0].params["reason"]


def test_deleting_by_a_wrong_name_deletes_nothing(
    make: Make, kind: Any, principal: Any, alice: Any
) -> None:
    row = make(alice, name="mine")
    with pytest.raises(Invalid):
        services.workload_delete(principal=principal(alice), row=row, typed_name="yours")
    row.refresh_from_db()
    assert row.desired == "running"


@sized
def test_a_plan_says_what_would_be_and_changes_nothing(
    make: Make, kind: Any, project: Any, principal: Any, alice: Any
) -> None:
    said = LEAST[kind.word] | {"memory_mib": 1024}
    plan = services.workload_plan(principal=principal(alice), project=project, kind=kind, said=said)
    assert (plan.action, plan.allowed, plan.starts) == ("create", True, True)
    assert plan.name == UNNAMED[kind.word]
    changes = {one.field: one.after for one in plan.changes}
    assert (changes["memory_mib"], changes["cluster"]) == (1024, "local")
    assert plan.decision.sentence in plan.sentences
    assert not Workload.objects.exists()


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"color": "green"}, "color"),
        ({"speed": 1}, "speed"),
        ({"cpu_milli": -1}, "cpu_milli"),
        ({"gpus": 1, "gpu_flavor": "none-such"}, "gpu_flavor"),
        ({"memory_mib": 256, "shm_mib": 512}, "shm_mib"),
        ({"pool": "fast"}, "pool"),
        ({"cluster": "elsewhere"}, "cluster"),
        ({"volumes": ["foreign"]}, "volumes"),
        ({"needs": ["nothing"]}, "needs"),
        ({"name": "x" * 64}, "name"),
    ],
)
def test_what_cannot_be_is_refused_by_the_name_of_its_field(
    said: dict[str, Any], field: str, make: Make, kind: Any, alice: Any
) -> None:
    with pytest.raises(Invalid) as refused:
        make(alice, **said)
    unknown = [name for name in said if name not in kind.table]
    assert list(refused.value.fields) == (unknown[:1] or [field])
    assert not Workload.objects.exists()


@sized
def test_private_fields_stay_out_of_events_and_of_what_others_read(
    make: Make, kind: Any, alice: Any
) -> None:
    row = make(alice, env={"TOKEN": "s3cret"})
    assert "s3cret" in str(selectors.values_of(row, private=True))
    assert "s3cret" in str(services.manifest_of(row, private=True))
    told = [selectors.values_of(row, private=False), services.manifest_of(row, private=False)]
    told += list(Event.objects.values_list("data", flat=True))
    told += list(Step.objects.values_list("message", flat=True))
    assert not any(word in str(told) for word in ("s3cret", "train.py", "TOKEN"))


@sized
def test_a_row_is_its_document_and_its_document_is_the_row(
    make: Make, kind: Any, project: Any, principal: Any, alice: Any
) -> None:
    row = make(alice, name="mine", env={"A": "1"}, cpu_milli=500, time_limit_minutes=0)
    me: dict[str, Any] = {"principal": principal(alice), "project": project, "kind": kind}
    document = services.manifest_of(row, private=True)
    assert document["kind"] == kind.document
    plan = services.manifest_plan(**me, document=document)
    assert (plan.action, plan.changes, plan.starts) == ("none", (), False)
    assert services.manifest_apply(**me, document=document).pk == row.pk
    document["metadata"]["name"] = "another"
    made = services.manifest_apply(**me, document=document)
    assert made.pk != row.pk
    assert selectors.values_of(made, private=True) | {"name": "mine"} == selectors.values_of(
        row, private=True
    )


@sized
def test_a_form_offers_what_there_is(
    make: Make, kind: Any, project: Any, principal: Any, alice: Any
) -> None:
    row = make(alice)
    offers = selectors.offers_for(principal(alice), project, kind)
    assert set(offers) <= {one.name for one in kind.table}
    assert offers["pool"] == offers["network"] == []  # one machine has none
    mounted = row.mounts.get().volume
    words = [word for word, _label in offers["volumes"]]
    assert (words, offers["volumes"][0][1].may_write) == ([str(mounted.uid)], True)
    assert selectors.form_values(row)["volumes"] == [str(mounted.uid)]


@sized
def test_what_it_waits_for_wakes_it(
    make: Make, kind: Any, project: Any, principal: Any, settle: Any, alice: Any
) -> None:
    from loaders.services import load_create
    from work.needs import changed

    said = {"url": "s3://bucket/images", "name": "images"}
    load = load_create(principal=principal(alice), project=project, said=said)
    row = make(alice, needs=["images"])
    assert selectors.values_of(row, private=False)["needs"] == ["images"]
    Workload.objects.filter(pk=row.pk).update(next_reconcile_at=None)
    changed([load.uid])
    row.refresh_from_db()
    assert row.next_reconcile_at is not None


def test_whose_time_is_almost_over_is_told_once_and_more_time_takes_it_back(
    make: Make, kind: Any, principal: Any, settle: Any, alice: Any
) -> None:
    """What runs to its end and was given little time from the first is not told of."""
    from datetime import timedelta

    from common.clock import now
    from notifications.models import Notification

    if "time_limit_minutes" not in kind.table:
        pytest.skip("it has no time limit")
    long, short = make(alice, time_limit_minutes=90), make(alice, time_limit_minutes=10)
    soon = now() + timedelta(minutes=10)
    Workload.objects.filter(pk__in=[long.pk, short.pk]).update(ends_at=soon, warned_at=None)
    told = Notification.objects.filter(kind=kind.ending_notice, user=alice)
    assert services.limits_enforce() == (1 if kind.once else 2)
    assert services.limits_enforce() == 0
    assert told.filter(params__name=long.name).get().params["minutes"] == 10
    after = services.workload_extend(principal=principal(alice), row=long, minutes=60)
    assert (after.ends_at, after.warned_at) == (soon + timedelta(minutes=60), None)
    assert services.limits_enforce() == 0
