"""What running loads tell of themselves, through HTTP: bounded, fenced by launch, never believed."""

import json
from datetime import timedelta
from typing import Any

import pytest

from loaders import services
from loaders.choices import State
from loaders.runtime_spec import report_token
from loaders.states import state_of
from tests.loaders.conftest import body_of
from work import services as work


@pytest.fixture
def row(load: Any, alice: Any, settle: Any) -> Any:
    return settle(load(alice))


def test_a_report_shows_how_far_it_is(row, report):
    answer = report(row)
    assert (answer.status_code, answer.json()) == (200, {"kept": True})
    row.refresh_from_db()
    assert state_of(row) == State.COPYING
    assert (row.files_done, row.bytes_done, row.eta_s, row.verified) == (2, 2000, 2, {"crc32c": 2})


@pytest.mark.parametrize("stage", ["listing", "verifying"])
def test_the_stage_is_the_state(row, report, stage):
    report(row, phase=stage)
    row.refresh_from_db()
    assert state_of(row) == stage


def test_at_most_one_report_a_second_is_kept_but_the_last_one_always(row, report, time_machine):
    time_machine.move_to(row.asked_at, tick=False)
    assert report(row, 1).json() == {"kept": True}
    assert report(row, 2, listed=False).json() == {"kept": False}
    final = {"exit": 0, "code": "done", "message": "", "manifest": "m"}
    assert report(row, 3, final=final).json() == {"kept": True}
    row.refresh_from_db()
    assert (row.seq, row.final["code"], row.listed) == (3, "done", True)


def test_an_older_report_changes_nothing(row, report, time_machine):
    report(row, 5)
    time_machine.move_to(row.asked_at + timedelta(days=365), tick=False)
    assert report(row, 4, listed=False).json() == {"kept": False}
    row.refresh_from_db()
    assert (row.seq, row.listed) == (5, True)


def test_a_report_of_an_older_launch_is_refused_and_changes_nothing(
    row, report, alice, principal, settle
):
    work.workload_stop(principal=principal(alice), row=row)
    settle(row)
    services.load_resume(principal=principal(alice), row=row)
    row.refresh_from_db()
    old = report_token(row.uid, 1)
    answer = report(row, body={**body_of(row), "launch": 1}, token=old)
    assert answer.status_code == 409
    assert report(row, token=old).status_code == 403  # the new launch has a token of its own
    row.refresh_from_db()
    assert (row.seq, row.reported_at) == (0, None)


def test_a_report_of_a_load_that_is_over_or_deleted_is_refused(row, report, end, alice, principal):
    end(row, 0)
    assert report(row).status_code == 409
    work.workload_delete(principal=principal(alice), row=row)
    assert report(row).status_code == 404


def test_a_strange_load_and_a_wrong_token_get_the_same_answer(row, report, load, alice):
    other = load(alice, "s3://bucket/other")
    wrong = [
        report(row, token="x" * 43),
        report(row, token=""),
        report(row, token=report_token(other.uid, 1)),
        report(row, body={**body_of(row), "launch": True}),
        report(row, body={**body_of(row), "launch": 2}),
    ]
    assert {answer.status_code for answer in wrong} == {403}
    row.refresh_from_db()
    assert row.reported_at is None


def test_the_way_in_is_the_listener_for_workloads_only(row, client, settings):
    answer = client.post(
        f"/hub/api/berth/loads/{row.uid}/report",
        json.dumps(body_of(row)),
        content_type="application/json",
        headers={"Authorization": f"Bearer {report_token(row.uid, 1)}"},
        SERVER_PORT=str(settings.BERTH_PORT),
    )
    assert answer.status_code == 404


@pytest.mark.parametrize(
    "parts",
    [
        {"phase": "dancing"},
        {"phase": None},
        {"files": []},
        {"files": {"found": -1}},
        {"files": {"found": "4"}},
        {"bytes": {"done": 2**60}},
        {"bytes": {"done": 10**400}},  # more than a float can be
        {"rate_bytes_s": True},
        {"eta_s": "soon"},
        {"listed": 1},
        {"errors": "none"},
        {"errors": ["x"]},
        {"verified": 7},
        {"final": []},
        {"final": {"exit": "0"}},
        {"seq": -1},
    ],
)
def test_a_report_that_is_not_one_is_refused(row, report, parts):
    assert report(row, **parts).status_code == 400
    row.refresh_from_db()
    assert row.reported_at is None


def test_numbers_that_json_does_not_have_are_refused(row, report):
    text = json.dumps(body_of(row)).replace('"eta_s": 2', '"eta_s": Infinity')
    assert report(row, body=text).status_code == 400
    assert report(row, body="[" * 100_000).status_code == 400


def test_too_much_is_refused_and_long_errors_are_cut(row, report):
    many = [{"key": f"k{n}", "code": "bad-key", "message": "m" * 5000} for n in range(60)]
    assert report(row, errors=many[:40]).status_code == 200
    row.refresh_from_db()
    assert len(row.errors[0]["message"]) == 300
    assert report(row, 2, errors=many).status_code == 400  # above the size of a body


def test_the_newest_fifty_errors_are_kept_with_names_that_are_safe_to_show(row, report):
    many = [{"key": f"k\x00\u202e{n}", "code": "bad-key", "message": "m"} for n in range(60)]
    report(row, errors=many)
    row.refresh_from_db()
    assert len(row.errors) == 50
    assert row.errors[-1]["key"] == "k\ufffd\ufffd59"


def test_a_load_whose_portal_key_was_rotated_goes_on_reporting(row, report, settings):
    token = report_token(row.uid, row.launch)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another-key-that-is-long-enough-for-all-the-checks"
    assert report(row, token=token).status_code == 200


def test_pages_are_told_on_the_load_s_own_topic_only(
    row, report, monkeypatch, django_capture_on_commit_callbacks
):
    from runtime import bus

    told: list[list[str]] = []
    monkeypatch.setattr(bus, "_send", lambda topics, message: told.append(topics))
    with django_capture_on_commit_callbacks(execute=True):
        report(row)
    assert told == [[f"load:{row.uid}"]]
