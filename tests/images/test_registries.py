"""What a registry may be asked, with whose sign-in, and what it can't make us believe or do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.common.conftest import say
from tests.images.conftest import INDEX, Registry

pytestmark = pytest.mark.django_db


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
    from common.oci import ImageProblem, Problem, parse_reference
    from common.oci import Registry as Asked
    from common.outbound import policy_from_settings

    name = parse_reference(f"{registry.host}/team/lab:1")
    with Asked(name.host, policy_from_settings()) as asked, pytest.raises(ImageProblem) as caught:
        asked.manifest(name, "../../../token")
    assert caught.value.problem is Problem.NOT_AN_IMAGE
    assert registry.asked == []


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
