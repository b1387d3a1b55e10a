"""The command that a form shows, run as it stands, makes what the form would."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from credentials.services import Label, credential_add
from notebooks.api.workspaces import API
from notebooks.models import Preset
from tests.cli.conftest import read
from tests.notebooks.cluster_world import attach, network, pool
from volumes.choices import VolumeKind
from volumes.models import Volume
from work.api.render import plan_out

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/projects/vision/workspaces/launch/plan/"
PRESETS: dict[str, dict[str, Any]] = {
    "lab": {"environment": "jupyterlab", "default_env": {"MODE": "fast", "KEPT": "1"}},
    "app": {
        "kind": "container",
        "image": "team/app:1",
        "command": ["python", "-m", "app"],
        "args": ["--title", "a b"],
        "ports": [{"port": 7860, "name": "demo", "web": True}],
        "gpus": 1,
        "gpu_flavor": "h100-80",
        "shm_mib": 512,
        "pool": "fast",
        "network": "rdma",
        "time_limit_minutes": 60,
        "cluster_key": "gpu",
    },
}


@pytest.fixture
def world(project, db, monkeypatch):
    from clusters import registry
    from notebooks.services import ensure_default_presets

    registry.reset()
    ensure_default_presets()
    cluster = attach(monkeypatch)
    network(cluster, "rdma", pool(cluster, "fast"))
    for slug, values in PRESETS.items():
        Preset.objects.create(slug=slug, name=slug.title(), **values)
    Preset.objects.create(slug="other", name="Other", environment="python-3")
    yield
    registry.reset()


@pytest.fixture
def same(world, as_user, alice, berth, token_of):
    """Fill in the form, run what it shows, and return the command when both are one."""

    def ask(preset: str, /, **form: Any) -> str:
        answer = as_user(alice).post(PAGE, {"preset": preset, **form})
        plan, command = answer.context["plan"], answer.context.get("plan_command")
        assert plan is not None, answer.context["problems"]
        words = shlex.split(str(command))
        assert words.pop(0) == "berth"
        said = berth(*words, "--plan", "-o", "json", token=token_of(alice))
        assert said.exit_code == 0, (command, said.exception, said.output)
        wanted = json.loads(json.dumps(plan_out(API, plan), default=str))
        got = read(said)
        assert got["spec"] == wanted["spec"], command
        assert (got["name"], got["preset"]) == (wanted["name"], wanted["preset"])
        return str(command)

    return ask


def test_a_preset_alone_is_a_short_command(same):
    command = same("lab", cluster="gpu")
    assert command.split("--name")[0] == "berth workspace launch lab --project vision "


def test_this_machine_is_said_where_there_is_another(same):
    assert "--cluster local" in same("lab", cluster="local")


def test_sizes_name_and_environment(same):
    form = {"cpu": "3.5", "memory": "2.25", "name": "-x 'y' $HOME", "time_limit_minutes": "90"}
    command = same("lab", cluster="local", environment="python-3", **form)
    assert "--environment python-3" in command


def test_any_kind_of_gpu_where_the_preset_names_one(same):
    assert "--gpu any" in same("app", gpus="2", pool="", network="", shown="1")
    assert "--gpu l40s" in same("app", gpus="1", gpu_flavor="l40s", pool="", network="")
    both = ["l40s", "h100-80"]
    assert "--gpu l40s --gpu h100-80" in same("app", gpus="1", gpu_flavor=both, pool="", network="")


def test_what_the_preset_has_can_be_taken_away(same):
    bare = {"image": "team/app:1", "command": "", "args": "", "ports": "", "shm": "0"}
    command = same("app", gpus="0", pool="", network="", time_limit_minutes="0", **bare)
    for words in ("--no-ports", "--command ''", "--args ''", "--pool ''", "--network ''"):
        assert words in command
    assert "--image" not in command


def test_another_image_with_a_program_of_its_own(same):
    other = {"image": "team/b:2", "command": "sh -c 'a; b'", "args": "", "shm": "1.5"}
    command = same(
        "app", **other, gpus="0", ports="7860 demo\n5432 db private", pool="", network=""
    )
    assert "--port 5432:db:private" in command
    assert "ports" not in same("app", **other, gpus="0", ports="", pool="", network="")


def test_a_container_from_the_preset_of_a_notebook_and_the_other_way(same):
    asked = {"kind": "container", "image": "team/b:2", "ports": "7860", "cluster": "gpu"}
    assert "--kind container" in same("lab", **asked)
    assert "--kind notebook" in same("app", kind="notebook", gpus="0", pool="", network="")


def test_values_of_the_environment_that_were_changed_or_added(same):
    env = "MODE=slow down\nOWN=it's=2\nEMPTY="
    command = same("lab", cluster="gpu", env=env)
    assert "--env 'MODE=slow down'" in command
    assert "KEPT" not in command


def _volume(project, alice, name, **values):
    return Volume.objects.create(
        project=project, created_by=alice, name=name, cluster_key="gpu", **values
    )


def test_volumes_and_credentials_and_none_of_them(same, principal, alice, mona, project):
    data = _volume(project, alice, "data set", kind=VolumeKind.DATA, size_limit_mib=1024)
    shared = _volume(project, alice, "shared", kind=VolumeKind.PROJECT)
    key = credential_add(
        principal=principal(mona),
        project=project,
        kind="generic",
        label=Label("my key"),
        fields={"given_as": "env", "values": {"TOKEN": "x"}},
    )
    usual = {"shown": "1", "cluster": "gpu", f"volume-{shared.uid}": "rw"}
    assert "--no-volumes" not in same("lab", **usual)
    command = same("lab", **{**usual, f"volume-{data.uid}": "ro", "credentials": str(key.uid)})
    assert "--volume 'data set:ro'" in command
    assert "--volume shared" in command
    assert "--credential 'my key'" in command
    assert "--no-volumes" in same("lab", shown="1", cluster="gpu")


def test_of_two_credentials_of_one_name_the_id_is_said(same, principal, mona, alice, project):
    kind, given = "generic", {"given_as": "env", "values": {"TOKEN": "x"}}
    of_project, own = (
        credential_add(
            principal=principal(who), project=where, kind=kind, label=Label("key"), fields=given
        )
        for who, where in ((mona, project), (alice, None))
    )
    usual = {"shown": "1", "cluster": "gpu"}
    assert f"--credential {own.uid}" in same("lab", **usual, credentials=str(own.uid))
    of_project.delete()
    assert "--credential key" in same("lab", **usual, credentials=str(own.uid))
