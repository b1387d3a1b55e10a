import pytest

from clusters import registry
from common.clock import now
from runtime import hints
from runtime.engine import run_due
from tests.engineapp.models import Note, Thing


@pytest.fixture(autouse=True)
def _fresh_world():
    registry.reset()
    yield
    registry.reset()


@pytest.fixture
def driver(db):
    """The fake machine."""
    return registry.driver_for("local")


@pytest.fixture
def router(db):
    return registry.router()


@pytest.fixture
def make_thing(db):
    def make(**values):
        values.setdefault("next_reconcile_at", now())
        return Thing.objects.create(**values)

    return make


@pytest.fixture
def want():
    """Change intent as a service does."""

    def change(thing, desired, **values):
        from django.db.models import F

        if desired == "running" and "launch" not in values:
            values["launch"] = F("launch") + 1
        Thing.objects.filter(pk=thing.pk).update(
            desired=desired, generation=F("generation") + 1, **values
        )
        hints.hint(thing)
        thing.refresh_from_db()
        return thing

    return change


@pytest.fixture
def settle():
    """Run the engine until quiet and look again."""

    def run(*things):
        run_due()
        for thing in things:
            thing.refresh_from_db()
        return things[0] if len(things) == 1 else things

    return run


@pytest.fixture
def words():
    """The timeline of a launch."""

    def read(thing, launch=1):
        notes = Note.objects.filter(thing=thing, launch=launch).order_by("id")
        return list(notes.values_list("word", flat=True))

    return read
