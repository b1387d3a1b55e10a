"""The API of jobs: what is a job's own, and what nobody else reads of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext

from clusters import streams

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]
JOBS = "/api/v1/projects/vision/jobs"
LEAST = {"name": "train", "command": ["python", "train.py"]}
SECRET = "sesame-opens"


@pytest.fixture
def run(api: Any, alice: Any, settle: Any) -> Callable[..., Any]:
    """Run a job of Alice's as far as it comes; return its row."""
    from jobs.models import Job

    def make(**said: Any) -> Any:
        answer = api(alice, "POST", JOBS, {**LEAST, **said})
        assert answer.status_code == 202, answer.content
        assert answer["Location"] == f"{JOBS}/{answer.json()['id']}"
        assert answer["ETag"]
        return settle(Job.objects.get(short_id=answer.json()["id"]))

    return make


@pytest.fixture
def address() -> Callable[..., str]:
    return lambda row, end="": f"{JOBS}/{row.short_id}{end}"


def test_how_it_ended_is_told_of_the_whole_and_of_each_replica(
    api, run, end, address, alice, vera
) -> None:
    row = end(run(replicas=3), 3, replica=1)
    told = api(vera, "GET", address(row)).json()
    assert (told["status"]["state"], told["exit_code"], told["failed_replica"]) == ("failed", 3, 1)
    assert told["finished_at"] == told["stopped_at"] is not None
    assert "3" in told["status"]["message"]
    ends = [(one["index"], one["state"], one["exit_code"]) for one in told["replicas"]]
    assert ends[1] == (1, "exited", 3)
    assert [index for index, *_ in ends] == [0, 1, 2]
    listed = api(alice, "GET", JOBS).json()["results"][0]
    assert (listed["exit_code"], listed["replicas"], listed["spec"]["volumes"]) == (3, None, None)


def test_started_again_it_has_no_end_yet_and_no_log_of_the_launch_before(
    api, run, end, fake, address, alice
) -> None:
    row = run()
    fake.write_log(str(row.uid), "first try\n")
    row = end(row, 1)
    again = api(alice, "POST", address(row, "/start"))
    assert again.status_code == 202, again.content
    told = again.json()
    assert (told["status"]["state"], told["launch"]) == ("queued", 2)
    assert (told["exit_code"], told["finished_at"], told["replicas"]) == (None, None, [])
    log = api(alice, "GET", address(row, "/logs")).json()
    assert (log["text"], log["launch"], log["over"]) == ("", 2, False)


def test_a_log_is_read_by_replica_while_it_runs_and_after_its_end(
    api, run, end, fake, address, alice
) -> None:
    row = run(replicas=2)
    for number in range(2):
        fake.write_log(str(row.uid), f"I am {number}\n", replica=number)

    def logged(**asked: Any) -> Any:
        words = "&".join(f"{name}={value}" for name, value in asked.items())
        return api(alice, "GET", address(row, f"/logs?{words}"))

    told = logged(replica=1).json()
    assert told["text"].endswith("I am 1\n")
    assert (told["launch"], told["over"]) == (1, False)
    assert logged(replica=1, offset=told["offset"] - 2).json()["text"] == "1\n"
    row = end(row)
    assert logged().json()["text"].endswith("I am 0\n")
    assert logged().json()["over"] is True
    assert logged(replica=2).status_code == 404
    assert logged(replica="x").status_code == 400


@pytest.mark.django_db(transaction=True)
async def test_a_log_is_followed_to_the_last_words_of_its_replica(
    run, end, fake, alice, monkeypatch
):
    monkeypatch.setattr(streams, "POLL_S", 0.01)
    row = await sync_to_async(lambda: run(replicas=2))()
    client = AsyncClient()
    await client.aforce_login(alice, "allauth.account.auth_backends.AuthenticationBackend")
    asked = {"accept": "text/event-stream"}
    stream = await client.get(f"{JOBS}/{row.short_id}/logs?replica=1", headers=asked)
    assert (stream.status_code, stream["Content-Type"]) == (200, "text/event-stream")

    def last() -> None:
        fake.write_log(str(row.uid), "of the other\n")
        fake.write_log(str(row.uid), "its last words\n", replica=1)
        end(row)

    ending = asyncio.create_task(sync_to_async(last)())
    told = "".join([block.decode() async for block in stream])
    await ending
    assert "its last words" in told
    assert "of the other" not in told
    assert told.rstrip().splitlines()[-2] == "event: end"


def test_what_is_private_is_its_owners_alone(api, run, address, alice, mona, vera) -> None:
    row = run(
        command=["python", SECRET], args=[f"--key={SECRET}"], env={"KEY": SECRET}, name="train"
    )
    mine = api(alice, "GET", address(row)).json()["spec"]
    assert mine["command"] == ["python", SECRET]
    assert mine["env"] == {"KEY": SECRET}
    assert api(alice, "GET", address(row, "/document")).json()["spec"]["env"] == {"KEY": SECRET}
    for other in (mona, vera):
        for end in ("", "/document", "/events"):
            answer = api(other, "GET", address(row, end))
            assert answer.status_code == 200, end
            assert SECRET not in answer.content.decode(), end
        assert SECRET not in api(other, "GET", JOBS).content.decode()
        assert api(other, "GET", address(row)).json()["spec"]["command"] is None
        assert api(other, "GET", address(row, "/logs")).status_code == 403
    assert SECRET not in api(alice, "GET", JOBS).content.decode()


def test_nothing_of_what_is_private_comes_into_the_log_of_what_happened(
    api, run, end, address, alice
) -> None:
    from events.models import Event

    row = run(command=["python", SECRET], env={"KEY": SECRET})
    row = end(row)
    assert api(alice, "PATCH", address(row), {"env": {"KEY": f"{SECRET}2"}}).status_code == 202
    assert api(alice, "DELETE", address(row)).status_code == 202
    written = list(Event.objects.values())
    assert any(str(one["verb"]).startswith("job.") for one in written)
    assert SECRET not in str(written)


def test_the_list_is_narrowed_by_state_owner_and_words(api, run, end, alice, bob) -> None:
    row, other = run(), run(name="second")
    end(row, 1)

    def names(user: Any, asked: str) -> list[str]:
        answer = api(user, "GET", f"{JOBS}?{asked}")
        assert answer.status_code == 200, answer.content
        return [one["name"] for one in answer.json()["results"]]

    assert names(bob, "") == ["second", "train"]
    assert names(bob, "mine=1") == []
    assert names(alice, "mine=1&state=failed") == ["train"]
    assert names(bob, "state=running") == ["second"]
    assert names(bob, "q=SEC") == ["second"]
    assert names(bob, f"q={other.short_id}") == ["second"]
    assert names(bob, "page_size=1") == ["second"]
    assert api(bob, "GET", f"{JOBS}?state=asleep").status_code == 400
    assert api(bob, "GET", f"{JOBS}?q=%00").status_code == 400


def test_a_list_asks_the_same_number_of_questions_however_long(api, run, alice) -> None:
    def asked() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            assert api(alice, "GET", JOBS).status_code == 200
        return len(seen)

    run()
    few = asked()
    for number in range(4):
        run(name=f"more-{number}")
    assert asked() == few


def test_a_plan_counts_all_replicas_and_makes_nothing(api, alice) -> None:
    from jobs.models import Job

    said = {**LEAST, "replicas": 4, "cpu_milli": 1000}
    plan = api(alice, "POST", f"{JOBS}?plan=1", said)
    assert plan.status_code == 200, plan.content
    told = plan.json()
    assert (told["action"], told["name"], told["allowed"]) == ("create", "train", True)
    assert told["spec"]["replicas"] == 4
    cpu = next(one for one in told["quota"] if "cpu" in one["resource"])
    assert cpu["after"] - cpu["used"] == 4000
    assert not Job.objects.exists()


def test_what_is_wrong_is_refused_by_its_name(api, alice) -> None:
    wrong = {
        "replicas": 65,
        "retries": -1,
        "env": {"PATH": "x"},
        "command": "python train.py",
        "cpu_milli": "many",
        "color": "red",
    }
    for name, value in wrong.items():
        answer = api(alice, "POST", JOBS, {**LEAST, name: value})
        assert (answer.status_code, list(answer.json()["fields"])) == (400, [name]), name
    assert api(alice, "POST", JOBS, {"name": "bare"}).status_code == 400


def test_it_changes_by_name_at_once_and_in_all_else_when_it_has_ended(
    api, run, end, address, alice, bob
) -> None:
    row = run()
    assert api(alice, "PATCH", address(row), {"cluster": "other"}).status_code == 400
    renamed = api(alice, "PATCH", address(row), {"name": "better"})
    assert (renamed.status_code, renamed.json()["name"]) == (202, "better")
    assert api(alice, "PATCH", address(row), {"retries": 3}).status_code == 409
    assert api(bob, "PATCH", address(row), {"name": "mine"}).status_code == 403
    row = end(row)
    plan = api(alice, "PATCH", address(row, "?plan=1"), {"retries": 3}).json()
    assert [one["field"] for one in plan["changes"]] == ["retries"]
    stale = api(alice, "PATCH", address(row), {"retries": 3}, if_match='"x-1"')
    assert stale.status_code == 412
    changed = api(alice, "PATCH", address(row), {"retries": 3})
    assert (changed.status_code, changed.json()["spec"]["retries"]) == (202, 3)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("presets")
def test_no_registry_is_asked_while_rows_are_locked(
    api, run, end, address, alice, monkeypatch
) -> None:
    from work.services import edit

    asked: list[bool] = []

    def digest_of(*_what: Any, **_how: Any) -> str:
        asked.append(connection.in_atomic_block)
        return "sha256:" + "a" * 64

    monkeypatch.setattr(edit, "digest_of", digest_of)
    monkeypatch.setattr("work.services.resolve.check_place", lambda *_what: None)
    row = end(run())
    changed = api(alice, "PATCH", address(row), {"image": "registry.example.org/train:2"})
    assert (changed.status_code, asked) == (202, [False]), changed.content


def test_a_name_that_a_person_typed_must_be_its_name(api, run, address, alice) -> None:
    row = run()
    refused = api(alice, "DELETE", address(row, "?name=tain"))
    assert refused.status_code == 400, refused.content
    assert api(alice, "DELETE", address(row, "?name=train")).status_code == 202


def test_the_timeline_and_the_state_as_events(api, run, address, alice, vera) -> None:
    row = run()
    steps = api(vera, "GET", address(row, "/events")).json()
    assert steps[0]["word"] == "accepted"
    assert {one["launch"] for one in steps} == {1}
    stream = api(vera, "GET", address(row, "/events"), accept="text/event-stream")
    assert (stream.status_code, stream["Content-Type"]) == (200, "text/event-stream")
