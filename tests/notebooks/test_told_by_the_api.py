"""What the API says of a workspace besides its size: where it runs, what to do, in which words."""

from pathlib import Path

import pytest
import yaml

from common.clock import now
from notebooks.models import Workspace
from runtime import reasons
from runtime.models import ObservedWorkload
from runtime.protocol import Desired, Phase
from tests.notebooks.cluster_world import BASE, CONTAINER, row_of

SCHEMA = Path(__file__).parents[2] / "docs/openapi.yaml"


def test_the_answer_says_on_which_node_it_runs_and_what_to_do(post, api, gpu, settle, alice, bob):
    row = settle(row_of(post(CONTAINER)))
    assert api(alice, "GET", f"{BASE}/{row.short_id}").json()["status"]["node"] is None
    ObservedWorkload.objects.update_or_create(
        cluster_key="gpu",
        uid=row.uid,
        defaults={"seen": "ready", "data": {"detail": {"node": "n7"}}, "seen_at": now()},
    )
    for who in (alice, bob):  # the page shows it to everybody who sees the workspace
        found = api(who, "GET", f"{BASE}/{row.short_id}").json()
        assert (found["status"]["node"], found["spec"]["cluster"]) == ("n7", "gpu")
    assert api(alice, "GET", BASE).json()["results"][0]["status"]["node"] is None
    Workspace.objects.filter(pk=row.pk).update(phase="failed", reason="image-auth")
    found = api(alice, "GET", f"{BASE}/{row.short_id}").json()["status"]
    assert (found["node"], found["advice"]) == (None, str(reasons.info("image-auth").advice))


@pytest.fixture(scope="module")
def schema():
    return yaml.load(SCHEMA.read_text(), yaml.CSafeLoader)


@pytest.mark.parametrize(
    ("shape", "field", "words"),
    [
        ("WorkspaceStatusOut", "phase", list(Phase)),
        ("PlaceSerializer", "phase", ["", *Phase]),
        ("WorkspaceOut", "desired", list(Desired)),
        ("WorkspaceOut", "access", ["owner", "visitor", "none"]),
        ("WorkspaceSpecOut", "kind", ["notebook", "container", "tensorboard"]),
        ("WorkspacePlanOut", "action", ["create", "update", "none"]),
    ],
)
def test_a_field_of_some_words_has_them_in_the_schema(schema, shape, field, words):
    shapes = schema["components"]["schemas"]
    name = next(name for name in (shape, shape.removesuffix("Serializer")) if name in shapes)
    said = shapes[name]["properties"][field]
    refs = [said, *said.get("allOf", ()), *said.get("oneOf", ())]
    names = [one["$ref"].rpartition("/")[2] for one in refs if "$ref" in one]
    assert sorted(word for name in names for word in shapes[name]["enum"]) == sorted(words)


def test_the_phases_that_a_list_can_be_narrowed_to_are_in_the_schema(schema):
    listed = schema["paths"]["/api/v1/projects/{project}/workspaces"]["get"]["parameters"]
    phase = next(one for one in listed if one["name"] == "phase")
    assert set(phase["schema"]["enum"]) == set(Phase)
