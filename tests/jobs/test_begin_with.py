"""Sizes to begin with (L9): one press fills the form, and nothing is made by it."""

from __future__ import annotations

from typing import Any

import pytest

from clusters import services
from clusters.models import Cluster
from jobs.models import Job
from runtime.protocol import Device
from tests.jobs.test_topology import FORM, cluster
from tests.notebooks.cluster_world import IMAGE

__all__ = ["cluster"]
pytestmark = pytest.mark.django_db


def values(html: str, *names: str) -> dict[str, str]:
    """Return what the inputs of some names say."""
    found = {}
    for name in names:
        tag = html.partition(f'name="{name}"')[2].partition(">")[0]
        found[name] = tag.partition('value="')[2].partition('"')[0]
    return found


def chosen(html: str, name: str) -> str:
    box = html.partition(f'<select name="{name}"')[2].partition("</select>")[0]
    return box.partition(" selected")[0].rpartition('value="')[2].partition('"')[0]


@pytest.mark.parametrize(
    ("word", "size", "topology"),
    [
        ("single", {"replicas": "1", "gpus": "1", "time_limit_minutes": ""}, "none"),
        ("try", {"replicas": "2", "gpus": "1", "time_limit_minutes": "30"}, "none"),
        ("many", {"replicas": "2", "gpus": "8", "time_limit_minutes": ""}, "required"),
    ],
)
def test_l9_one_press_fills_the_form_and_makes_nothing(
    cluster: Cluster,
    as_user: Any,
    alice: Any,
    project: Any,
    word: str,
    size: dict[str, str],
    topology: str,
) -> None:
    client = as_user(alice)
    asked = client.get(FORM).content.decode()
    assert all(name in asked for name in ("Single GPU", "Try distributed", "Many GPUs"))
    plain = client.get(FORM, {"fill": word}).content.decode()
    typed = {"name": "mine", "image": IMAGE, "replicas": "9", "gpus": "3", "fill": word}
    pressed = client.post(FORM, typed).content.decode()
    for html in (plain, pressed):
        assert values(html, *size) == size
        assert chosen(html, "topology") == topology
    assert values(pressed, "name", "image") == {"name": "mine", "image": IMAGE}
    assert 'id="fill-' + word + '" name="fill" value="' + word + '" aria-pressed="true"' in pressed
    assert not Job.objects.exists()


def test_l9_what_was_pressed_can_be_started(
    cluster: Cluster, as_user: Any, alice: Any, project: Any
) -> None:
    client = as_user(alice)
    page = client.post(FORM, {"image": IMAGE, "fill": "many"})
    said = {
        name: bound.value()
        for name, bound in ((b.name, b) for b in page.context["form"])
        if bound.value()
    }
    assert client.post(FORM, {**said, "nonce": "n"}).status_code == 302
    row = Job.objects.get()
    assert (row.gpus, row.replicas, row.gpu_flavor) == (8, 2, "h100-80")
    assert (row.topology, row.topology_level) == ("required", "unit")


def test_the_level_is_of_the_cluster_with_the_largest_nodes(
    cluster: Cluster, as_user: Any, alice: Any, project: Any
) -> None:
    """Another cluster tells wider levels: nothing on them says that these nodes have any."""
    options = {**cluster.options, "unit_label": ""}
    Cluster.objects.filter(pk=cluster.pk).update(options=options)
    Cluster.objects.create(
        key="wide", name="Wide", driver="kubernetes", options=cluster.options, reachable=True
    )
    html = as_user(alice).get(FORM, {"fill": "many"}).content.decode()
    assert chosen(html, "topology_level") == "rack"


def test_without_gpus_there_is_nothing_to_begin_with(
    as_user: Any, alice: Any, project: Any, presets: Any
) -> None:
    html = as_user(alice).get(FORM, {"fill": "many"}).content.decode()
    assert "launch-fills" not in html


@pytest.mark.parametrize(("gpus", "words"), [(1, ["single"]), (4, ["single", "try", "many"])])
def test_one_machine_is_one_node_and_its_sizes_fit(
    as_user: Any, alice: Any, project: Any, presets: Any, world: Any, gpus: int, words: list[str]
) -> None:
    fake = world.driver_for("local")
    fake.set_devices([Device(f"GPU-{n}", n, "H100", 80_000) for n in range(gpus)])
    there = services.ensure_local_cluster()
    services.health_store(key=there.key, health=fake.probe())
    client = as_user(alice)
    assert [fill.word for fill in client.get(FORM).context["fills"]] == words
    for word in words:
        typed = {"command": "python train.py", "fill": word}
        plan = client.post(FORM, typed).context["plan"]
        assert plan.decision.starts_now, (word, plan.sentences)
