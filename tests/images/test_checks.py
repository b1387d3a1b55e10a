"""C9 and D2: an image is looked at before anything starts with it, and only where Berth goes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from common.errors import Invalid
from images import services
from images.models import ImageFacts
from tests.common.conftest import say
from tests.images.conftest import INDEX, Registry
from tests.support.shortest import shortest

pytestmark = pytest.mark.django_db

URL = "/api/v1/projects/vision/images/check"


@pytest.fixture
def check(project: Any, bob: Any, as_user: Any) -> Any:
    client = as_user(bob)

    def ask(image: str, **more: Any) -> dict[str, Any]:
        body = json.dumps({"image": image, **more})
        answer = client.post(URL, body, content_type="application/json")
        assert answer.status_code == 200, answer.content
        found: dict[str, Any] = answer.json()
        return found

    return ask


@pytest.fixture
def signed_in(registry: Registry, project: Any, alice: Any, principal: Any) -> Any:
    """The project has a sign-in for the registry."""
    from credentials.services import Label, credential_add

    return credential_add(
        principal=principal(alice),
        project=project,
        kind="registry",
        label=Label("ours"),
        fields={
            "host": registry.host,
            "username": registry.login[0],
            "password": registry.login[1],
        },
    )


def test_an_image_that_is_there_is_pinned_and_described(registry: Registry, check: Any) -> None:
    digest = registry.image(
        "1", User="1000", Entrypoint=["tini"], Cmd=["lab"], ExposedPorts={"8888/tcp": {}}
    )
    found = check(f"{registry.host}/team/lab:1")
    assert found["verdict"] == "good"
    assert found["pinned"] == f"{registry.host}/team/lab@{digest}"
    assert (found["digest"], found["size_bytes"], found["ports"]) == (digest, 3000, [8888])
    assert (found["entrypoint"], found["command"]) == (["tini"], ["lab"])
    assert (found["runs_as_root"], found["warnings"]) == (False, [])


def test_of_many_architectures_the_index_is_pinned(registry: Registry, check: Any) -> None:
    arm, amd = registry.image("a", architecture="arm64"), registry.image("b", User="1000")
    index = registry.index("2", arm64=arm, amd64=amd)
    found = check(f"{registry.host}/team/lab:2")
    assert (found["digest"], found["architectures"]) == (index, ["amd64", "arm64"])


def test_an_image_for_other_machines_is_refused(registry: Registry, check: Any) -> None:
    registry.image("arm", architecture="arm64")
    registry.index("idx", arm64=registry.image("x", architecture="arm64"))
    registry.image("win", os="windows")
    for tag in ("arm", "idx", "win"):
        found = check(f"{registry.host}/team/lab:{tag}")
        assert (found["verdict"], found["problem"]) == ("bad", "wrong-architecture"), found
    assert "arm64" in check(f"{registry.host}/team/lab:arm")["message"]


def test_what_a_cluster_is_made_of_decides(registry: Registry, check: Any) -> None:
    from clusters.models import Cluster, Node
    from common.clock import now

    cluster = Cluster.objects.create(key="arm", name="Arm", driver="kubernetes")
    Node.objects.create(
        cluster=cluster, name="n", labels={"kubernetes.io/arch": "arm64"}, seen_at=now()
    )
    registry.image("arm", architecture="arm64")
    assert check(f"{registry.host}/team/lab:arm", cluster="arm")["verdict"] == "good"


def test_where_no_cluster_is_said_the_one_that_a_start_would_choose_decides(
    registry: Registry, check: Any, as_user: Any, bob: Any, settings: Any, monkeypatch: Any
) -> None:
    from clusters.models import Node
    from common.clock import now
    from notebooks.models import Preset
    from tests.notebooks.cluster_world import attach, pool

    settings.BERTH_LOCAL_CLUSTER = False
    Preset.objects.create(slug="lab", name="Lab")
    far = attach(monkeypatch, "far", options={"run_as_user": 4242})
    pool(far, "arms")
    name = {"kubernetes.io/arch": "arm64"}
    Node.objects.create(cluster=far, name="n", labels=name, seen_at=now())
    refuses = attach(monkeypatch, "a-first", options={"trusted": False})
    Node.objects.create(cluster=refuses, name="n", labels={}, seen_at=now())
    registry.image("arm", architecture="arm64")
    registry.image("usual")
    asked = f"{registry.host}/team/lab"
    assert check(f"{asked}:arm")["verdict"] == "good"
    assert check(f"{asked}:usual")["problem"] == "wrong-architecture"
    refuses.options = {**refuses.options, "trusted": True}
    refuses.save()
    assert check(f"{asked}:usual")["verdict"] == "good"
    form = {"image": f"{asked}:arm", "preset": "lab", "cluster": ""}
    page = "/projects/vision/images/check"
    for said, good in ((form, False), ({**form, "pool": "arms"}, True)):
        answer = as_user(bob).post(page, said).content.decode()
        assert ("Can&#x27;t be used" not in answer and "Found" in answer) is good
    # the form of a workspace that is there says it in the address
    answer = as_user(bob).post(f"{page}?cluster=far", {"image": f"{asked}:arm"}).content.decode()
    assert "Found" in answer


def test_the_cluster_of_a_chosen_volume_decides_and_no_other_volume(
    registry: Registry, as_user: Any, bob: Any, project: Any, settings: Any, monkeypatch: Any
) -> None:
    from clusters.models import Node
    from common.clock import now
    from notebooks.models import Preset
    from tests.notebooks.cluster_world import attach
    from volumes.models import Volume

    settings.BERTH_LOCAL_CLUSTER = False
    Preset.objects.create(slug="lab", name="Lab")
    for key, machine in (("a-first", "amd64"), ("far", "arm64")):
        cluster = attach(monkeypatch, key)
        labels = {"kubernetes.io/arch": machine}
        Node.objects.create(cluster=cluster, name="n", labels=labels, seen_at=now())
    shared, data = (
        Volume.objects.create(project=project, created_by=bob, cluster_key="far", **values)
        for values in ({"name": "shared", "kind": "project"}, {"name": "data", "kind": "data"})
    )
    registry.image("arm", architecture="arm64")
    form = {"image": f"{registry.host}/team/lab:arm", "preset": "lab", "cluster": ""}
    offered = {f"volume-{shared.uid}": "rw", f"volume-{data.uid}": ""}
    for said, good in (
        (offered, False),
        ({**offered, f"volume-{data.uid}": "ro"}, True),
        ({**offered, f"volume-{shared.uid}": "ro"}, True),
        ({"volume-": "rw"}, False),
    ):
        answer = as_user(bob).post("/projects/vision/images/check", {**form, **said})
        assert ("Found" in answer.content.decode()) is good, said


def test_a_missing_tag_is_said_in_words(registry: Registry, check: Any) -> None:
    found = check(f"{registry.host}/team/lab:none")
    assert (found["verdict"], found["problem"]) == ("bad", "not-found")
    assert "no such image" in found["message"]


def test_a_private_image_needs_the_sign_in_of_the_project(
    registry: Registry, check: Any, request: Any
) -> None:
    registry.image("1", User="1000")
    registry.mode = "basic"
    found = check(f"{registry.host}/team/lab:1")
    assert (found["verdict"], found["problem"]) == ("bad", "sign-in")
    request.getfixturevalue("signed_in")
    assert check(f"{registry.host}/team/lab:1")["verdict"] == "good"
    registry.login = ("robot", "changed")
    assert check(f"{registry.host}/team/lab:1")["problem"] == "wrong-login"


def test_a_token_is_asked_of_the_realm_with_the_sign_in(
    registry: Registry, check: Any, signed_in: Any
) -> None:
    registry.image("1", User="1000")
    registry.mode = "token"
    assert check(f"{registry.host}/team/lab:1")["verdict"] == "good"
    tokens = [path for _verb, path, _headers in registry.asked if path.startswith("/token")]
    assert len(tokens) == 1
    assert "scope=repository%3Ateam%2Flab%3Apull" in tokens[0]
    signed_in.refresh_from_db()
    assert signed_in.last_used_for == "check"


def test_d2_a_realm_inside_is_not_asked_and_gets_no_password(
    registry: Registry, check: Any, signed_in: Any, serve: Any
) -> None:
    inside = serve(say(b'{"token":"x"}'), host="127.0.0.3")
    registry.image("1")
    registry.mode = "token"
    for realm in (f"http://127.0.0.3:{inside.port}/token", "https://169.254.169.254/", "file:///x"):
        registry.realm = realm
        found = check(f"{registry.host}/team/lab:1")
        assert found["verdict"] == "unknown", found
    assert inside.asked == []


def test_d2_a_blob_elsewhere_is_fetched_without_the_sign_in_and_only_in_public(
    registry: Registry, check: Any, signed_in: Any, serve: Any, settings: Any
) -> None:
    registry.image("1", User="1000")
    registry.mode = "basic"
    store = Registry()
    store.server = serve(store.answer, host="127.0.0.3")
    store.things = registry.things
    registry.redirect = f"http://{store.host}"
    assert check(f"{registry.host}/team/lab:1")["verdict"] == "unknown"
    assert store.asked == []
    settings.BERTH_INSECURE_REGISTRIES = [registry.host, store.host]
    assert check(f"{registry.host}/team/lab:1")["verdict"] == "good"
    assert "Authorization" not in store.asked[0][2]


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:6379", "169.254.169.254", "[::ffff:127.0.0.1]:5000", "10.0.0.1", "localhost:5000"],
)
def test_d2_a_registry_inside_is_not_asked(check: Any, host: str, settings: Any) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["here"]
    found = check(f"{host}/team/lab:1")
    assert (found["verdict"], found["problem"]) == ("unknown", "refused")


def test_c9_what_is_no_reference_is_said_without_asking_anybody(check: Any) -> None:
    found = check("ghcr.io/Team/../x")
    assert (found["verdict"], found["problem"]) == ("bad", "bad-reference")


def test_a_registry_that_lies_about_a_digest_is_found_out(registry: Registry, check: Any) -> None:
    digest = registry.image("1")
    other = registry.image("2", User="7")
    registry.things[digest] = registry.things[other]
    found = check(f"{registry.host}/team/lab@{digest}")
    assert (found["verdict"], found["problem"]) == ("bad", "damaged")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"[]", "not-an-image"),
        (b"\xff", "not-an-image"),
        (b"[" * 90_000, "not-an-image"),
        (b'{"schemaVersion": 1}', "old-format"),
        (b'{"schemaVersion": 2, "config": []}', "not-an-image"),
        (
            b'{"schemaVersion": 2, "config": {"mediaType": "application/vnd.cncf.helm"}}',
            "not-an-image",
        ),
    ],
)
def test_something_else_than_an_image_is_said(
    registry: Registry, check: Any, body: bytes, problem: str
) -> None:
    registry.put(body, "application/vnd.oci.image.manifest.v1+json", "odd")
    assert check(f"{registry.host}/team/lab:odd")["problem"] == problem


@pytest.mark.parametrize("sizes", [[-1], ["x"], [2**60], [1] * 2000, [True, None]])
def test_nonsense_in_a_manifest_is_no_error_of_ours(
    registry: Registry, check: Any, sizes: Any
) -> None:
    registry.image("1", sizes=sizes)
    assert check(f"{registry.host}/team/lab:1")["verdict"] == "bad"


def test_nonsense_in_a_configuration_is_left_out(registry: Registry, check: Any) -> None:
    ports = dict.fromkeys(("x", "99999/tcp", "²/tcp", "9" * 5000, "80\n"), 1)
    registry.image("1", User=7, Entrypoint="sh", Cmd=[{"a": 1}] * 500, ExposedPorts=ports)
    found = check(f"{registry.host}/team/lab:1")
    assert found["verdict"] == "good"
    assert (found["ports"], len(found["command"])) == ([], 40)


def test_an_index_that_points_to_itself_ends(registry: Registry, check: Any) -> None:
    body = json.dumps(
        {
            "mediaType": INDEX,
            "manifests": [
                {
                    "digest": "sha256:" + "2" * 64,
                    "platform": {"os": "linux", "architecture": "amd64"},
                }
            ],
        }
    ).encode()
    registry.put(body, INDEX, "loop", "sha256:" + "2" * 64)
    assert check(f"{registry.host}/team/lab:loop")["problem"] == "damaged"


@pytest.mark.parametrize(
    "digest", ["../../../token?x=", "sha256:" + "G" * 64, "sha512:" + "0" * 128, "", None, 7]
)
def test_d2_a_digest_in_an_index_that_is_none_is_not_asked_for(
    registry: Registry, check: Any, digest: Any
) -> None:
    registry.index("odd", amd64=digest)
    found = check(f"{registry.host}/team/lab:odd")
    assert (found["verdict"], found["problem"]) == ("bad", "wrong-architecture")
    assert [path.rpartition("/")[2] for _method, path, _headers in registry.asked] == ["odd"]


def test_d2_what_is_no_digest_never_becomes_part_of_an_address(registry: Registry) -> None:
    from common.oci.problems import ImageProblem, Problem
    from common.oci.reference import parse
    from common.oci.registry import Registry as Asked
    from common.outbound import policy_from_settings

    name = parse(f"{registry.host}/team/lab:1")
    with Asked(name.host, policy_from_settings()) as asked, pytest.raises(ImageProblem) as caught:
        asked.manifest(name, "../../../token")
    assert caught.value.problem is Problem.NOT_AN_IMAGE
    assert registry.asked == []


def test_an_image_that_is_too_large_is_refused(
    registry: Registry, check: Any, settings: Any
) -> None:
    settings.BERTH_IMAGE_MAX_GIB = 1
    registry.image("1", sizes=[2**31])
    found = check(f"{registry.host}/team/lab:1")
    assert (found["problem"], "2.0\N{NO-BREAK SPACE}GiB" in found["message"]) == ("too-large", True)


def test_root_and_other_users_are_said_before_a_launch(registry: Registry, check: Any) -> None:
    registry.image("root")
    registry.image("init", Entrypoint=["/init"])
    registry.image("other", User="33:33", Cmd=["x"])
    registry.image("none", User="1000")
    found = check(f"{registry.host}/a/b:root")
    assert found["runs_as_root"]
    assert "number 1000" in found["warnings"][0]
    assert "needs root" in check(f"{registry.host}/a/b:init", kind="container")["warnings"][0]
    assert "“33:33”" in check(f"{registry.host}/a/b:other", kind="container")["warnings"][0]
    assert "no program" in check(f"{registry.host}/a/b:none", kind="container")["warnings"][0]


def test_an_image_without_jupyterhub_is_no_notebook_but_a_container(
    registry: Registry, check: Any
) -> None:
    registry.image("1", User="1000", Cmd=["x"])
    assert check(f"{registry.host}/a/b:1")["singleuser"] == ""
    for version, problem in (("none", "no-singleuser"), ("3.1.1", "old-singleuser")):
        ImageFacts.objects.update(singleuser=version)
        found = check(f"{registry.host}/a/b:1")
        assert (found["verdict"], found["problem"]) == ("bad", problem)
        assert check(f"{registry.host}/a/b:1", kind="container")["verdict"] == "good"
    ImageFacts.objects.update(singleuser="5.2.1")
    assert check(f"{registry.host}/a/b:1")["verdict"] == "good"


def test_a_launch_asks_once_a_minute_and_pins(
    registry: Registry, project: Any, bob: Any, principal: Any
) -> None:
    digest = registry.image("1", User="1000")
    asked = {
        "principal": principal(bob),
        "project": project,
        "cluster_key": "",
        "reference": f"{registry.host}/a/b:1",
        "kind": "notebook",
    }
    assert services.require_good(**asked).digest == digest
    before = len(registry.asked)
    assert services.require_good(**asked).digest == digest
    assert len(registry.asked) == before
    assert services.pinned(asked["reference"], digest) == f"{registry.host}/a/b@{digest}"
    with pytest.raises(Invalid) as caught:
        services.require_good(**{**asked, "reference": f"{registry.host}/a/b:no"})
    assert "image" in caught.value.fields


def test_what_a_sign_in_found_is_not_told_to_other_projects(
    registry: Registry, signed_in: Any, project: Any, bob: Any, principal: Any
) -> None:
    from projects.models import Membership, Project

    registry.image("1", User="1000")
    registry.mode = "basic"
    other = Project.objects.create(slug="other", name="Other", phase="running")
    Membership.objects.create(project=other, user=bob, role="member")
    asked = {
        "principal": principal(bob),
        "cluster_key": "",
        "reference": f"{registry.host}/a/b:1",
        "kind": "notebook",
    }
    assert services.require_good(project=project, **asked).good
    with pytest.raises(Invalid):
        services.require_good(project=other, **asked)


def test_a_registry_that_is_silent_is_not_waited_for_long(
    serve: Any, settings: Any, check: Any, monkeypatch: Any
) -> None:
    import time

    from images import lookup

    settings.BERTH_CLUSTER_PRIVATE_KEY = ["here"]
    monkeypatch.setattr(lookup, "SECONDS", 0.3)
    servers = [serve(lambda _handler: time.sleep(1)) for _ in range(3)]
    settings.BERTH_INSECURE_REGISTRIES = [f"127.0.0.2:{server.port}" for server in servers]

    def ask() -> None:
        found = check(f"127.0.0.2:{servers.pop().port}/a/b:1")  # what was found once is kept
        assert (found["verdict"], found["problem"]) == ("unknown", "unreachable")

    assert shortest(ask) < 1


def test_of_many_launches_one_waits_for_a_silent_registry(
    serve: Any, settings: Any, project: Any, bob: Any, principal: Any, monkeypatch: Any
) -> None:
    import time

    from images import lookup

    server = serve(lambda _handler: time.sleep(1))
    host = f"127.0.0.2:{server.port}"
    settings.BERTH_INSECURE_REGISTRIES = [host]
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["here"]
    monkeypatch.setattr(lookup, "SECONDS", 0.3)
    for _ in range(5):
        found = services.require_good(
            principal=principal(bob),
            project=project,
            cluster_key="",
            reference=f"{host}/a/b:1",
            kind="notebook",
        )
        assert (found.verdict, found.digest) == ("unknown", "")
    assert len(server.asked) == 1


def test_a_person_has_two_questions_under_way_at_most(
    registry: Registry, signed_in: Any, project: Any, bob: Any, alice: Any, as_user: Any
) -> None:
    from common.turns import turn

    registry.image("1")
    body = json.dumps({"image": f"{registry.host}/a/b:1"})
    tested = f"/api/v1/projects/vision/credentials/{signed_in.uid}/test"
    with turn(bob.pk), turn(bob.pk), turn(alice.pk), turn(alice.pk):
        refused = as_user(bob).post(URL, body, content_type="application/json")
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-at-once")
        assert "wait for their answers" in refused.json()["detail"]
        assert as_user(alice).post(tested).status_code == 429
    assert not registry.asked
    for _ in range(3):  # turns are given back
        assert as_user(bob).post(URL, body, content_type="application/json").status_code == 200


def test_a_launch_waits_for_its_turn_and_believes_what_others_heard(
    registry: Registry, project: Any, bob: Any, principal: Any, monkeypatch: Any
) -> None:
    from common import turns

    digest = registry.image("1", User="1000")
    asked = {
        "principal": principal(bob),
        "project": project,
        "cluster_key": "",
        "reference": f"{registry.host}/a/b:1",
        "kind": "notebook",
    }
    with turns.turn(bob.pk), turns.turn(bob.pk):
        monkeypatch.setattr(services, "SECONDS", -3.0)
        with pytest.raises(turns.TooManyAtOnce):
            services.require_good(**asked)
    assert services.require_good(**asked).digest == digest


def test_without_the_gate_the_answer_is_unknown(check: Any, settings: Any) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = []
    settings.BERTH_GATE_INTERNAL_URL = "http://127.0.0.1:9"
    settings.BERTH_GATE_TOKEN = "x"
    found = check("ghcr.io/a/b:1")
    assert (found["verdict"], found["problem"]) == ("unknown", "unreachable")


def test_the_form_shows_the_finding_and_where_credentials_are(
    registry: Registry, bob: Any, project: Any, as_user: Any
) -> None:
    registry.image("1")
    client = as_user(bob)
    page = "/projects/vision/images/check"
    text = client.post(page, {"image": f"{registry.host}/a/b:1"}).content.decode()
    assert "Found" in text
    assert "number 1000" in text
    registry.mode = "basic"
    text = client.post(page, {"image": f"{registry.host}/a/b:1"}).content.decode()
    assert "be used" in text
    assert "/projects/vision/credentials/" in text
    assert "first" in client.post(page, {}).content.decode()
    hostile = client.post(page, {"image": "<script>alert(1)</script>"}).content.decode()
    assert "<script>" not in hostile


def test_viewers_and_strangers_check_nothing(
    project: Any, vera: Any, charlie: Any, as_user: Any
) -> None:
    for user, status in ((vera, 403), (charlie, 404)):
        answer = as_user(user).post(URL, '{"image": "a"}', content_type="application/json")
        assert answer.status_code == status


def test_a_sign_in_is_tested_at_its_registry(
    registry: Registry, signed_in: Any, alice: Any, as_user: Any
) -> None:
    client = as_user(alice)
    url = f"/api/v1/projects/vision/credentials/{signed_in.uid}/test"
    for mode in ("basic", "token"):
        registry.mode = mode
        registry.login = ("robot", "secret")
        assert client.post(url).json()["ok"], mode
        registry.login = ("robot", "other")
        said = client.post(url).json()
        assert not said["ok"]
        assert "secret" not in json.dumps(said)
    signed_in.refresh_from_db()
    assert (signed_in.test_ok, signed_in.tested_at is not None) == (False, True)


def test_d10_a_failed_test_holds_no_header_and_no_trace(
    signed_in: Any, alice: Any, as_user: Any, settings: Any
) -> None:
    settings.BERTH_INSECURE_REGISTRIES = []
    url = f"/api/v1/projects/vision/credentials/{signed_in.uid}/test"
    said = as_user(alice).post(url).json()
    assert not said["ok"]
    assert len(said["message"]) < 200
    assert "Basic" not in said["message"]
