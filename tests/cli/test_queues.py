"""The tree of queues from a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clusters import registry, services
from projects.models import Project
from queues.models import Guarantee, Queue
from runtime.protocol import Device, Health
from tests.cli.conftest import read

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def eight(transactional_db: None) -> Any:
    registry.reset()
    there = services.ensure_local_cluster()
    devices = tuple(Device(f"GPU-{n}", n, "H100", 80_000) for n in range(8))
    services.health_store(key=there.key, health=Health(True, "1", 0, 0, devices, {"users": True}))

    yield there
    registry.reset()


@pytest.fixture
def me(operator: Any, token_of: Callable[[Any], str]) -> dict[str, str]:
    return {"token": token_of(operator)}


@pytest.fixture
def hunter(transactional_db: None) -> Project:
    return Project.objects.create(slug="hunter", name="Hunter", phase="running")


def test_a_plan_is_told_and_then_kept(berth: Run, me: Any, hunter: Project) -> None:
    said = ("queues", "set", "hunter", "--on", "local/h100", "--guaranteed", "10")
    planned = berth(*said, "--plan", **me)
    assert planned.exit_code == 0, planned.output
    assert "local/h100: 10 of 8 promised  MORE THAN THERE ARE" in planned.output
    assert "Nothing was changed." in planned.output
    assert not Queue.objects.exists()
    assert berth(*said, **me).exit_code == 0
    berth("queues", "set", "hunter", "--on", "local/h100", "--most", "12", "--lends", "1", **me)
    kept = Guarantee.objects.get()
    assert (kept.guaranteed, kept.most, kept.lends) == (10, 12, 1)
    berth("queues", "set", "hunter", "--on", "local/h100", "--most", "none", **me)
    assert Guarantee.objects.get().most is None
    listed = berth("queues", "list", **me).output
    assert "10 local/h100 (lends 1)" in listed
    shown = berth("queues", "show", "--cluster", "local", **me)
    assert "Hunter" in shown.output
    assert read(berth("queues", "list", "-o", "json", **me))[0]["project"] == "hunter"


def test_people_and_times_are_said_too(berth: Run, me: Any, hunter: Project) -> None:
    said = ("--each-gpus", "4", "--longest", "train=60", "--longest", "build=600")
    assert berth("queues", "set", "hunter", *said, **me).exit_code == 0
    (found,) = (
        row
        for row in read(berth("queues", "list", "-o", "json", **me))
        if row["project"] == "hunter"
    )
    assert (found["each_gpus"], found["longest"]) == (4, {"train": 60, "build": 600})
    berth("queues", "set", "hunter", "--each-gpus", "0", "--longest", "train=0", **me)
    assert Queue.objects.get().longest == {"build": 600}
    assert berth("queues", "set", "hunter", "--longest", "train", **me).exit_code == 2
    assert berth("queues", "set", "hunter", "--longest", "play=5", **me).exit_code != 0


def test_what_is_not_there_or_not_said_is_a_sentence(berth: Run, me: Any, hunter: Project) -> None:
    assert "no part of the tree called 'nobody'" in str(
        berth("queues", "set", "nobody", "--weight", "2", **me).exception
    )
    assert berth("queues", "set", "hunter", **me).exit_code == 2
    assert berth("queues", "set", "hunter", "--guaranteed", "2", **me).exit_code == 2
    wrong = berth("queues", "set", "hunter", "--on", "local/h100", "--most", "many", **me)
    assert wrong.exit_code == 2
    assert berth("queues", "set", "hunter", "--below", "Nobody", **me).exit_code == 4


def test_members_see_their_own(
    berth: Run, project: Any, alice: Any, token_of: Any, me: Any
) -> None:
    said = ("queues", "set", project.slug, "--on", "local/h100", "--guaranteed", "2")
    assert berth(*said, **me).exit_code == 0
    own = berth("--project", project.slug, "queues", "show", token=token_of(alice))
    assert own.exit_code == 0, own.output
    assert "h100" in own.output
    assert berth("queues", "list", token=token_of(alice)).exit_code == 4
