"""E14: a queue that an old version filled is emptied by a new one, and the other way round.

``payloads.json`` holds one message of each task as it lies in the queue. Entries are added when a
task is made or sends something else, and never changed or removed: they are the promise.
"""

import inspect
import json
from pathlib import Path

import pytest

from portal.celery import app
from runtime import tasks
from runtime.protocol import Phase
from tests.engineapp.models import Thing

RECORDED = json.loads((Path(__file__).parent / "payloads.json").read_text())


def own_tasks():
    app.loader.import_default_modules()
    return {name: task for name, task in app.tasks.items() if not name.startswith("celery.")}


def name_of(message):
    return message["headers"]["task"]


@pytest.mark.parametrize("message", RECORDED, ids=lambda m: f"{m['version']} {name_of(m)}")
def test_e14_what_an_old_version_left_in_the_queue_is_done_by_this_one(make_thing, message):
    args, kwargs, _embed = message["body"]
    thing = make_thing()
    if (
        name_of(message).startswith("runtime.") and args
    ):  # the id of this test's row; the shape stays as it was recorded
        args = [args[0], thing.pk, *args[2:]]
    result = own_tasks()[name_of(message)].apply(args, kwargs)
    assert result.successful(), result.traceback
    if name_of(message) not in {"runtime.collect_orphans", "jobs.fetch_code"}:  # not of things
        assert Thing.objects.get().phase == Phase.RUNNING


@pytest.mark.parametrize("name", sorted({name_of(message) for message in RECORDED}))
def test_e14_every_task_takes_more_and_less_than_it_knows(db, name):
    """Arguments of a newer version must not make a message fail that an old worker gets."""
    kinds = {p.kind for p in inspect.signature(own_tasks()[name].run).parameters.values()}
    assert kinds == {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    for args, kwargs in (((), {}), (("a", "b", "c", 4), {"of_the_future": [1]})):
        assert own_tasks()[name].apply(args, kwargs).successful()


def test_e14_no_task_is_renamed_or_added_without_a_recorded_payload():
    assert {name_of(message) for message in RECORDED} == set(own_tasks())


def test_e14_what_is_sent_today_is_what_was_recorded(db, monkeypatch):
    """A new shape is a new entry, so that the next version still understands it."""
    sent = []
    monkeypatch.setattr(tasks.bus, "send", lambda *_: False)
    monkeypatch.setattr(tasks.reconcile_one, "delay", lambda *a, **k: sent.append([list(a), k]))
    tasks.wake("thing", 7)
    recorded = [m["body"][:2] for m in RECORDED if name_of(m) == "runtime.reconcile_one"]
    assert sent[0] in recorded
