"""What people send that nobody should: numbers, shapes, names, and what is not theirs."""

from __future__ import annotations

import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from common.clock import now
from serving.examples import examples
from tests.serving.conftest import ENDPOINTS
from work.fields import is_storable

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]

VERSIONS = "/api/v1/projects/vision/models/digits/versions"
DEEP: Any = []
for _level in range(900):
    DEEP = [DEEP]


def one(**said: Any) -> dict[str, Any]:
    return {"signature": {"inputs": [{"name": "x", **said}]}}


F1 = [
    {"metrics": {"a": 10**400}},
    {"metrics": {"a": -(10**400)}},
    {"metrics": {"a\x00b": 1}},
    {"metrics": {"a": True}},
    {"signature": {"inputs": 5}},
    {"signature": {"inputs": ["x"]}},
    {"signature": {"outputs": [{"shape": [1]}]}},
    {"signature": {"note": "a\x00b"}},
    {"signature": {"note": "\ud800"}},
    {"signature": {"note": DEEP}},
    {"signature": {"note": "x" * 70_000}},
    one(shape=[1] * 15_000),
    one(shape=[10**300]),
    one(shape=[1.5]),
    one(parameters=[1]),
    one(parameters={"columns": [{"a": 1}]}),
    {"name": "../v1"},
    {"origin": "volume:data/../other"},
    {"origin": "volume:data//etc"},
    {"origin": "file:///etc/passwd"},
    {"origin": "http://169.254.169.254/latest"},
]


@pytest.mark.parametrize("said", F1, ids=lambda said: json.dumps(said)[:50])
def test_f1_a_version_that_makes_no_sense_is_refused_by_its_field(
    api, alice, model, data, said
) -> None:
    answer = api(alice, "POST", VERSIONS, {"origin": "volume:data/x", **said})
    assert answer.status_code == 400, answer.content
    assert list(answer.json().get("fields", {})) in ([], list(said))
    assert not model.versions.exists()


def test_f1_whatever_signature_is_taken_is_an_example_at_once(api, alice, model, data) -> None:
    said = {"name": "x", "datatype": "FP32", "shape": [-1, *[2**53] * 31]}
    columns = {**said, "shape": [], "parameters": {"columns": ["a"] * 5000}}
    for inputs in ([said], [said] * 50, [columns], []):
        body = {"origin": "volume:data/x", "signature": {"inputs": inputs}}
        answer = api(alice, "POST", VERSIONS, body)
        assert answer.status_code == 202, answer.content
        for shown in examples(("v1", "v2"), answer.json()["signature"], "digits"):
            assert len(shown.body) < 64 * 1024


def test_a1_a_manager_gives_a_canary_nothing_that_is_private_to_its_owner(
    api, alice, mona, serve, credential
) -> None:
    """The canary is the owner's: what a manager says is looked up as the manager's own."""
    from work.attached import attached_to

    mine, shared = credential("mine", project=None), credential("ours")
    at = f"{ENDPOINTS}/{serve().short_id}"
    for word in (mine.name, str(mine.uid)):
        said = {"credentials": [word], "command": ["env"]}
        assert api(mona, "POST", f"{at}/canary", said).status_code == 400
    taken = api(mona, "POST", f"{at}/canary", {"credentials": ["ours"]})
    assert taken.status_code == 202, taken.content
    from serving.models import Endpoint

    (canary,) = Endpoint.objects.filter(canary_of__isnull=False)
    assert (canary.owner, attached_to(canary).credentials) == (alice, (shared,))


def test_e13_a_canary_begins_beside_nothing_that_was_stopped_meanwhile(
    api, alice, serve, monkeypatch
) -> None:
    """Hidden beside what is stopped, it would run for ever and be in no list."""
    from serving.models import Endpoint
    from serving.services import canary

    row = serve()
    real = canary.workload_create

    def late(**said: Any) -> Any:
        assert api(alice, "POST", f"{ENDPOINTS}/{row.short_id}/stop").status_code == 202
        return real(**said)

    monkeypatch.setattr(canary, "workload_create", late)
    answer = api(alice, "POST", f"{ENDPOINTS}/{row.short_id}/canary", {"args": ["x"]})
    assert (answer.status_code, answer.json()["code"]) == (409, "not-running")
    assert Endpoint.objects.count() == 1


@pytest.mark.parametrize(
    ("reason", "said"), [("", "It failed."), ("image-not-found", "It failed: ")]
)
def test_a3_callers_of_what_failed_read_nothing_that_its_engine_said(serve, reason, said) -> None:
    """Who has a key may be a stranger: images and registries are its project's."""
    from serving.services import endpoint_wake

    row = serve()
    row.observed_generation, row.phase, row.reason = row.generation, "failed", reason
    row.message = "manifest of registry.internal/secret-team/model:7 unknown"
    row.save()
    told = endpoint_wake(row.pk)
    assert told.startswith(said)
    assert "secret-team" not in told


def test_a3_what_sleeps_does_not_wake_for_an_owner_who_may_not_run_it(
    alice, serve, project
) -> None:
    """Whoever calls reads of the owner's right, not of a project that is not there."""
    from projects.models import Membership
    from serving.services import endpoint_wake

    row = serve(sleep_after_minutes=5)
    row.desired, row.phase, row.stop_reason = "stopped", "stopped", "asleep"
    row.save()
    alice.is_active = False
    alice.save()
    said = ["Its owner may not run it here any more."]
    assert [endpoint_wake(row.pk)] == said
    alice.is_active = True
    alice.save()
    Membership.objects.filter(user=alice).update(role="viewer")
    assert [endpoint_wake(row.pk)] == said
    Membership.objects.filter(user=alice).delete()
    assert [endpoint_wake(row.pk)] == said
    project.archived_at = now()
    project.save()
    assert endpoint_wake(row.pk)
    row.refresh_from_db()
    assert (row.desired, row.launch) == ("stopped", 1)


def test_a_key_of_a_deleted_endpoint_opens_no_other_of_its_name(api, alice, serve, settle) -> None:
    from serving.gateway.rows import read_table

    first = serve()
    api(alice, "POST", f"{ENDPOINTS}/{first.short_id}/keys", {"name": "shop"})
    assert len(read_table().principals) == 1
    assert api(alice, "DELETE", f"{ENDPOINTS}/{first.short_id}").status_code == 202
    assert settle(first).deleted_at
    again = serve()
    table = read_table()
    assert ([one.uid for one in table.endpoints], table.principals) == ([str(again.pk)], {})
    assert api(alice, "GET", f"{ENDPOINTS}/{again.short_id}/keys").json()["results"] == []


NAMES = {
    "shift-jis": (b"\x83\x82\x83f\x83\x8b.joblib", "there"),
    "a-line": (b"a\nb.joblib", "there"),
    "a-color": (b"\x1b[31mx.joblib", "there"),
    "a-tag": (b"<img src=x onerror=alert(1)>.joblib", "there"),
    "none-of-ours": (b"\x83\x82\xff.bin", "failed"),
    "a-folder": (b"model.pkl/inner", "failed"),
}


def test_d1_names_of_files_are_bytes_and_a_link_is_no_file(
    look, api, alice, as_user, model, data, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    for place, (name, _files) in NAMES.items():
        file = folder / place / os.fsdecode(name)
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x")
    (folder / "a-link").mkdir()
    (folder / "a-link/model.pkl").symlink_to("/etc/passwd")
    many = folder / "many"
    many.mkdir()
    for number in range(1001):
        (many / f"{number}.pkl").touch()
    for place in (*NAMES, "a-link", "many"):
        said = {"origin": f"volume:data/{place}", "name": place}
        assert api(alice, "POST", VERSIONS, said).status_code == 202
    look()
    told = {row.name: (row.files, row.problem) for row in model.versions.all()}
    assert {name: files for name, (files, _why) in told.items()} == {
        **{place: files for place, (_name, files) in NAMES.items()},
        **dict.fromkeys(("a-link", "many"), "failed"),
    }
    assert told["a-link"][1] == "There are no files in this folder."
    assert "more than 1000 files" in told["many"][1]
    page = as_user(alice).get(model.get_absolute_url())
    assert page.status_code == 200
    assert b"<img src=x" not in page.content


def test_files_are_looked_at_for_who_is_here_when_who_registered_them_left(
    look, api, alice, bob, model, data, tmp_path: Path
) -> None:
    from projects.models import Membership

    (tmp_path / "data/m").mkdir(parents=True)
    (tmp_path / "data/m/model.pkl").write_bytes(b"x")
    assert api(bob, "POST", VERSIONS, {"origin": "volume:data/m"}).status_code == 202
    look()
    Membership.objects.filter(user=bob).delete()
    assert api(alice, "POST", f"{VERSIONS}/v1/check").status_code == 202
    look()
    assert [(one.files, one.problem) for one in model.versions.all()] == [("there", "")]


def test_what_was_there_stays_so_while_its_volume_can_t_be_looked_into(
    look, api, alice, model, data, tmp_path: Path
) -> None:
    """A volume that is handed over or can't be mounted takes nothing from what serves it."""
    from volumes.models import Volume

    (tmp_path / "data/m").mkdir(parents=True)
    (tmp_path / "data/m/model.pkl").write_bytes(b"x")
    assert api(alice, "POST", VERSIONS, {"origin": "volume:data/m"}).status_code == 202
    look()
    assert api(alice, "POST", f"{VERSIONS}/v1/check").status_code == 202
    Volume.objects.filter(pk=data.pk).update(deleted_at=now())
    look()
    (row,) = model.versions.all()
    assert (row.files, bool(row.problem)) == ("there", True)


@pytest.mark.parametrize("path", ["../../other/x", "v1/../../x", "./v1", "a b", "a\\b", "a\nb"])
def test_a_page_tries_only_what_is_below_the_endpoint(as_user, alice, serve, path) -> None:
    from serving.models import EndpointKey

    at = f"/projects/vision/endpoints/{serve().short_id}/try/"
    answer = as_user(alice).post(at, {"method": "GET", "path": path})
    assert answer.status_code == 422
    assert not EndpointKey.objects.exists()


def test_the_folder_of_a_model_may_be_the_whole_volume_and_of_any_length(
    look, api, alice, model, data, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/model.pkl").write_bytes(b"x")
    assert api(alice, "POST", VERSIONS, {"origin": "volume:data"}).status_code == 202
    long = api(alice, "POST", VERSIONS, {"origin": f"volume:data/{'a' * 600}"})
    assert (long.status_code, list(long.json()["fields"])) == (400, ["origin"])
    look()
    assert [(one.files, one.problem) for one in model.versions.all()] == [("there", "")]


LIES = {
    "a size that no number has room for": '"size": 1e400, "path": "m/model.pkl"',
    "a size of forty digits": f'"size": {"9" * 40}, "path": "m/model.pkl"',
    "a negative size": '"size": -5, "path": "m/model.pkl"',
    "a size that is a list": '"size": [], "path": "m/model.pkl"',
    "a name that leads out": '"size": 1, "path": "m/../../other/model.pkl"',
    "a long name": f'"size": 1, "path": "m/{"a" * 5000}/model.pkl"',
    "a name with NUL": '"size": 1, "path": "m/%00/model.pkl"',
    "half a letter": '"size": 1, "path": "m/\\ud800/model.pkl"',
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_file_server_that_lies_holds_up_no_other_version(
    api, alice, model, data, settle, settings, lie
) -> None:
    """The project's own user runs it: it may say anything of its own files, and nothing more."""
    from files.models import FileSession
    from serving.services.version_files import versions_look

    settings.BERTH_CLUSTER_PRIVATE_KEY = "as in the worker"
    text = f'{{"entries": [{{"kind": "file", {lie}}}]}}\n{{"done": {{"complete": true}}}}\n'

    class Liar(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_words: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Liar)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        for name in ("v1", "v2"):
            said = {"origin": "volume:data/m", "name": name, "framework": "sklearn"}
            assert api(alice, "POST", VERSIONS, said).status_code == 202
        for _turn in range(3):
            versions_look()
            for row in FileSession.objects.filter(deleted_at=None).select_related("volume"):
                settle(row)
                address = f"127.0.0.1:{server.server_address[1]}"
                FileSession.objects.filter(pk=row.pk).update(phase="running", address=address)
            model.versions.filter(look_at__isnull=False).update(look_at=now())
    finally:
        server.shutdown()
        server.server_close()
    for row in model.versions.all():
        assert row.look_at is None
        assert is_storable(row.folder + row.problem)
        assert len(row.folder) <= 512
        assert ".." not in row.folder.split("/")
        assert row.size_bytes is None or 0 <= row.size_bytes < 2**63


@pytest.mark.parametrize("edits", [False, True], ids=["made", "edited"])
def test_a_model_that_is_deleted_while_a_deploy_starts_is_told_so(
    api, alice, serve, version, monkeypatch, edits
) -> None:
    """Its version was there when the form was read."""
    from serving.models import Endpoint
    from work.services import edit, launch

    version("v1")
    at = f"{ENDPOINTS}/{serve(name='other').short_id}" if edits else ENDPOINTS
    real = edit.lock if edits else launch.digest_of

    def late(*words: Any, **said: Any) -> Any:
        assert api(alice, "DELETE", f"{VERSIONS}/v1").status_code == 204
        return real(*words, **said)

    said = {"model": "digits/v1"}
    monkeypatch.setattr(*((edit, "lock") if edits else (launch, "digest_of")), late)
    answer = api(alice, "PATCH" if edits else "POST", at, said)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["model"])
    assert not Endpoint.objects.exclude(name="other").exists()


def test_e13_the_slower_of_two_presses_reads_that_there_is_a_canary(
    api, alice, serve, monkeypatch
) -> None:
    from serving.services import canary

    at = f"{ENDPOINTS}/{serve().short_id}/canary"
    real = canary.workload_create

    def late(**said: Any) -> Any:
        monkeypatch.setattr(canary, "workload_create", real)
        assert api(alice, "POST", at, {"args": ["first"]}).status_code == 202
        return real(**said)

    monkeypatch.setattr(canary, "workload_create", late)
    answer = api(alice, "POST", at, {"args": ["second"]})
    assert (answer.status_code, answer.json()["code"]) == (409, "has-canary")
