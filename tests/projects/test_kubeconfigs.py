"""kubectl for members: a file that is limited, ends, and can be taken back."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import yaml

from accounts.services.people import user_disable, user_readmit, user_refuse
from accounts.services.tokens import token_create, token_revoke
from clusters import registry
from clusters.models import Cluster
from common.clock import now
from events.models import Event
from notebooks.models import Workspace
from projects import reconciler
from projects.models import KubeGrant, ProjectNamespace
from projects.services import kube, members
from runtime.drivers.kubernetes.access import KubeAccess
from tests.projects.cluster_double import KEY, TenantFake, alpha
from tests.support import driving
from volumes.models import Volume

pytestmark = pytest.mark.django_db
__all__ = ["alpha"]
API = "/api/v1/projects/vision/kubeconfigs"


def _make(client: Any, **body: Any) -> dict[str, Any]:
    answer = client.post(API, {"cluster": KEY, **body}, content_type="application/json")
    assert answer.status_code == 201, answer.content
    driving.run_due()
    found: dict[str, Any] = answer.json()
    return found


def _users(alpha: TenantFake) -> dict[str, Any]:
    (spec,) = alpha.places.values()
    return {u.user: u for u in spec.kube_users}


def test_the_file_holds_no_secret_and_asks_the_berth_command(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    client = as_user(bob)
    made = _make(client, name="laptop")
    answer = client.post(f"{API}/{made['id']}/file")
    assert answer["Cache-Control"] == "no-store"
    said = yaml.safe_load(answer.json()["kubeconfig"])
    place = ProjectNamespace.objects.get()
    assert said["contexts"][0]["context"]["namespace"] == place.namespace
    assert said["clusters"][0]["cluster"]["server"] == "https://alpha.example.org:6443"
    (user,) = said["users"]
    assert set(user["user"]) == {"exec"}
    assert made["id"] in user["user"]["exec"]["args"]


def test_who_has_no_berth_is_told_how_to_get_it_and_where_to_sign_in(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any, settings: Any
) -> None:
    settings.BERTH_PUBLIC_URL = "https://berth.example.org"
    client = as_user(bob)
    made = _make(client)
    text = client.post(f"{API}/{made['id']}/file").json()["kubeconfig"]
    hint = yaml.safe_load(text)["users"][0]["user"]["exec"]["installHint"]
    pages = [client.get(path) for path in ("/projects/vision/kubectl", "/settings/tokens")]
    for said in (hint, *(page.content.decode() for page in pages)):
        assert "pip install ./cli" in said
        assert "berth login https://berth.example.org" in said


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, ("https://10.0.0.5:6443", "api.example.org")),
        ({"kube_api_url": "https://k.example.org:6443"}, ("https://k.example.org:6443", None)),
    ],
)
def test_the_name_that_the_attached_file_gives_the_server_is_in_that_of_people(
    alpha: TenantFake,
    project: Any,
    bob: Any,
    as_user: Any,
    monkeypatch: pytest.MonkeyPatch,
    options: Any,
    wanted: Any,
) -> None:
    """Else kubectl would refuse a certificate that Berth itself takes."""
    attached = KubeAccess("https://10.0.0.5:6443", "PEM", tls_server_name="api.example.org")
    monkeypatch.setattr(registry, "access_of", lambda _cluster: attached)
    client = as_user(bob)
    made = _make(client)
    Cluster.objects.filter(key=KEY).update(options=options)
    text = client.post(f"{API}/{made['id']}/file").json()["kubeconfig"]
    said = yaml.safe_load(text)["clusters"][0]["cluster"]
    assert (said["server"], said.get("tls-server-name")) == wanted


def test_a_token_lives_a_quarter_of_an_hour_and_its_use_is_noted(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    client = as_user(bob)
    made = _make(client)
    answer = client.post(f"{API}/{made['id']}/token")
    assert answer.status_code == 200, answer.content
    assert answer.json()["token"] == f"token-of-{made['id']}"
    assert client.get(API).json()["results"][0]["last_used_at"]
    assert Event.objects.filter(verb="kubeconfig.token-issued").count() == 1


def test_before_the_rights_are_made_the_answer_is_to_ask_again(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    client = as_user(bob)
    made = client.post(API, {"cluster": KEY}, content_type="application/json").json()
    answer = client.post(f"{API}/{made['id']}/token")
    assert answer.status_code == 409
    assert answer.json()["code"] == "preparing"


def test_the_plain_token_is_in_the_file_and_ends_after_the_chosen_hours(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    client = as_user(bob)
    made = _make(client, kind="token", hours=2)
    grant = KubeGrant.objects.get()
    assert grant.expires_at - grant.created_at == timedelta(hours=2)
    said = yaml.safe_load(client.post(f"{API}/{made['id']}/file").json()["kubeconfig"])
    assert said["users"][0]["user"]["token"] == f"token-of-{made['id']}"
    wrong = client.post(API, {"cluster": KEY, "hours": 25}, content_type="application/json")
    assert wrong.status_code == 400
    assert "hours" in wrong.json()["fields"]


def test_rights_name_ones_own_pods_only(
    alpha: TenantFake, project: Any, bob: Any, alice: Any, as_user: Any
) -> None:
    for user, name in ((bob, "ba"), (alice, "al")):
        home = Volume.objects.create(
            project=project, owner=user, name=f"home-{name}", cluster_key=KEY
        )
        Workspace.objects.create(
            project=project, owner=user, name=name, home=home, cluster_key=KEY, short_id=f"{name}1"
        )
    _make(as_user(bob))
    assert {u.user: u.pods for u in reconciler.kube_users(ProjectNamespace.objects.get())} == {
        str(bob.uid): ("ws-ba1-0",)
    }


def test_revoking_takes_the_rights_away(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    client = as_user(bob)
    made = _make(client)
    assert _users(alpha)
    assert client.delete(f"{API}/{made['id']}").status_code == 204
    driving.run_due()
    assert _users(alpha) == {}
    assert client.post(f"{API}/{made['id']}/token").status_code == 404


def test_a3_what_the_row_knows_to_be_revoked_is_said_to_the_cluster(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    """The note on the namespace may be of a worker that was late, and not name it."""
    client = as_user(bob)
    kept, gone = _make(client), _make(client)
    client.delete(f"{API}/{gone['id']}")
    driving.run_due()
    (spec,) = alpha.places.values()
    assert spec.revoked == (gone["id"],)
    assert [u.grants for u in spec.kube_users] == [(kept["id"],)]


def test_a_manager_revokes_those_of_others_a_member_does_not(
    alpha: TenantFake, project: Any, bob: Any, mona: Any, alice: Any, as_user: Any
) -> None:
    theirs = _make(as_user(alice))
    assert as_user(bob).delete(f"{API}/{theirs['id']}").status_code == 404
    assert as_user(bob).post(f"{API}/{theirs['id']}/token").status_code == 404
    assert as_user(mona).post(f"{API}/{theirs['id']}/token").status_code == 404
    assert as_user(mona).delete(f"{API}/{theirs['id']}").status_code == 204


def test_a3_who_leaves_or_is_disabled_loses_kubectl(
    alpha: TenantFake,
    project: Any,
    bob: Any,
    vera: Any,
    operator: Any,
    as_user: Any,
    principal: Any,
) -> None:
    _make(as_user(bob))
    _make(as_user(vera))
    members.member_remove(principal=principal(operator), project=project, user=bob)
    user_disable(who=principal(operator), user=vera)
    driving.run_due()
    assert _users(alpha) == {}
    assert not KubeGrant.objects.filter(revoked_at__isnull=True).exists()


def test_c4_whom_the_identity_provider_refuses_loses_kubectl(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    made = _make(as_user(bob))
    assert _users(alpha)
    user_refuse(user=bob, said="invalid_grant")
    driving.run_due()
    assert _users(alpha) == {}
    user_readmit(user=bob)
    assert as_user(bob).post(f"{API}/{made['id']}/token").status_code == 404


def test_a_grant_that_ended_is_removed_by_itself(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    made = _make(as_user(bob), kind="token", hours=1)
    place = ProjectNamespace.objects.get()
    assert place.next_reconcile_at is not None
    KubeGrant.objects.update(expires_at=now() - timedelta(seconds=1))
    ProjectNamespace.objects.update(next_reconcile_at=now())
    driving.run_due()
    assert _users(alpha) == {}
    assert as_user(bob).post(f"{API}/{made['id']}/token").status_code == 404


@pytest.mark.parametrize(("who", "status"), [("operator", 403), ("auditor", 403), ("charlie", 404)])
def test_who_is_no_member_gets_none(
    alpha: TenantFake, project: Any, as_user: Any, request: Any, who: str, status: int
) -> None:
    client = as_user(request.getfixturevalue(who))
    answer = client.post(API, {"cluster": KEY}, content_type="application/json")
    assert answer.status_code == status


def test_a_token_that_only_reads_makes_none(
    alpha: TenantFake, project: Any, bob: Any, principal: Any, client: Any
) -> None:
    _token, secret = token_create(who=principal(bob), name="reader", read_only=True)
    sent = {"Authorization": f"Bearer {secret}"}
    answer = client.post(API, {"cluster": KEY}, content_type="application/json", headers=sent)
    assert answer.status_code == 403


def test_a3_what_a_token_made_ends_with_the_token(
    alpha: TenantFake, project: Any, bob: Any, principal: Any, client: Any, as_user: Any
) -> None:
    mine = _make(as_user(bob))
    token, secret = token_create(who=principal(bob), name="stolen")
    sent = {"Authorization": f"Bearer {secret}"}
    made = client.post(API, {"cluster": KEY}, content_type="application/json", headers=sent)
    assert made.status_code == 201, made.content
    token_revoke(who=principal(bob), uid=token.uid)
    live = KubeGrant.objects.filter(revoked_at__isnull=True)
    assert [str(grant.uid) for grant in live] == [mine["id"]]


def test_unknown_and_forbidden_clusters_are_refused_by_name(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    answer = as_user(bob).post(API, {"cluster": "local"}, content_type="application/json")
    assert answer.status_code == 400
    assert "cluster" in answer.json()["fields"]


def test_at_most_ten_files_of_one_person(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    for _number in range(10):
        _make(as_user(bob))
    answer = as_user(bob).post(API, {"cluster": KEY}, content_type="application/json")
    assert answer.status_code == 409


class TestPages:
    def test_make_download_and_revoke_without_scripts(
        self, alpha: TenantFake, project: Any, bob: Any, as_user: Any
    ) -> None:
        client = as_user(bob)
        page = "/projects/vision/kubectl"
        assert page in client.get("/projects/vision/").content.decode()
        client.post(page, {"cluster": KEY, "kind": "exec", "hours": 8, "name": "thinkpad-9"})
        driving.run_due()
        html = client.get(page).content.decode()
        assert "thinkpad-9" in html
        grant = KubeGrant.objects.get()
        file = client.post(f"{page}/{grant.uid}/file")
        assert file["Content-Disposition"].startswith("attachment")
        assert file["Cache-Control"] == "no-store"
        mine = client.get("/settings/kubeconfigs").content.decode()
        assert "thinkpad-9" in mine
        client.post(f"/settings/kubeconfigs/{grant.uid}/revoke")
        client.get(page)  # says that it was revoked
        assert "thinkpad-9" not in client.get(page).content.decode()

    def test_a3_where_one_is_revoked_it_says_what_goes_on(
        self, alpha: TenantFake, project: Any, bob: Any, mona: Any, as_user: Any
    ) -> None:
        """The cluster asks for rights when a stream begins: an open shell is not cut."""
        _make(as_user(bob))
        grant, page = KubeGrant.objects.get(), "/projects/vision/kubectl"
        for client, url in (
            (as_user(bob), "/settings/kubeconfigs"),
            (as_user(bob), page),
            (as_user(mona), page),
        ):
            assert "goes on until it is closed" in client.get(url).content.decode()
        done = as_user(bob).post(f"{page}/{grant.uid}/revoke", follow=True).content.decode()
        assert "What is already open goes on" in done

    @pytest.mark.parametrize(
        ("kind", "used", "cluster", "words"),
        [
            ("token", True, {"enabled": False}, "goes on until that is over"),
            ("token", True, {"reachable": False}, "goes on until that is over"),
            ("exec", True, {"enabled": False}, "goes on until that is over"),
            ("token", False, {"enabled": False}, "opens nothing any more"),  # nobody has one
            ("token", True, {}, "opens nothing any more"),
        ],
    )
    def test_a3_a_token_that_outlives_its_revocation_is_told_of(
        self,
        alpha: TenantFake,
        project: Any,
        bob: Any,
        as_user: Any,
        *,
        kind: str,
        used: bool,
        cluster: dict[str, bool],
        words: str,
    ) -> None:
        client = as_user(bob)
        made = _make(client, kind=kind, hours=2)
        if used:
            assert client.post(f"{API}/{made['id']}/token").status_code == 200
        Cluster.objects.filter(key=KEY).update(**cluster)
        client.post(f"/settings/kubeconfigs/{made['id']}/revoke")
        assert words in client.get("/settings/kubeconfigs").content.decode()

    def test_a_token_of_a_quarter_of_an_hour_is_over_after_one(
        self, alpha: TenantFake, project: Any, bob: Any, as_user: Any
    ) -> None:
        made = _make(as_user(bob), kind="exec")
        grant = KubeGrant.objects.get(uid=made["id"])
        Cluster.objects.filter(key=KEY).update(enabled=False)
        grant.last_used_at = now() - timedelta(minutes=10)
        assert kube.outlives(grant) == grant.last_used_at + timedelta(minutes=15)
        grant.last_used_at = now() - timedelta(minutes=16)
        assert kube.outlives(grant) is None

    def test_they_are_searched_by_name_place_and_person(
        self, alpha: TenantFake, project: Any, bob: Any, mona: Any, as_user: Any
    ) -> None:
        for name in ("thinkpad-9", "build-server"):
            _make(as_user(bob), name=name)
        for client, url in (
            (as_user(bob), "/settings/kubeconfigs"),
            (as_user(bob), "/projects/vision/kubectl"),
            (as_user(mona), "/projects/vision/kubectl"),
        ):
            page = client.get(url, {"q": "THINK"}).content.decode()
            assert "thinkpad-9" in page
            assert "build-server" not in page
            assert "build-server" in client.get(url, {"q": KEY}).content.decode()
            nothing = client.get(url, {"q": "nope"}).content.decode()
            assert "Nothing matches" in nothing
            assert "thinkpad-9" not in nothing
        assert "thinkpad-9" in as_user(mona).get(url, {"q": "bob"}).content.decode()

    def test_without_a_cluster_there_is_no_tab(self, project: Any, bob: Any, as_user: Any) -> None:
        assert "kubectl" not in as_user(bob).get("/projects/vision/").content.decode()
        assert "kubeconfigs" not in as_user(bob).get("/settings/profile").content.decode()

    def test_a_manager_sees_whose_there_are(
        self, alpha: TenantFake, project: Any, bob: Any, mona: Any, as_user: Any
    ) -> None:
        _make(as_user(bob), name="bobs-laptop")
        assert "bobs-laptop" in as_user(mona).get("/projects/vision/kubectl").content.decode()
        assert "bobs-laptop" not in as_user(mona).get("/settings/kubeconfigs").content.decode()


def test_rights_that_somebody_removed_by_hand_are_made_again_when_asked_for(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    client = as_user(bob)
    made = _make(client)
    (namespace,) = alpha.places
    asked = alpha.ensured
    alpha.places[namespace] = replace(alpha.places[namespace], kube_users=())
    assert client.post(f"{API}/{made['id']}/token").json()["code"] == "preparing"
    driving.run_due()
    assert alpha.ensured > asked
    assert client.post(f"{API}/{made['id']}/token").status_code == 200


def test_rights_that_the_cluster_has_not_heard_of_are_asked_for_again_and_not_made_again(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    client = as_user(bob)
    made = _make(client)
    asked, alpha.settles = alpha.ensured, 1
    answer = client.post(f"{API}/{made['id']}/token")
    assert (answer.status_code, answer.json()["code"]) == (409, "preparing")
    assert client.get(API).json()["results"][0]["last_used_at"] is None
    driving.run_due()
    assert alpha.ensured == asked
    assert client.post(f"{API}/{made['id']}/token").status_code == 200


def test_the_download_bears_with_a_cluster_that_has_not_heard_of_the_rights(
    alpha: TenantFake, project: Any, bob: Any, as_user: Any
) -> None:
    client = as_user(bob)
    made = _make(client, kind="token")
    alpha.settles = 1
    said = client.post(f"/projects/vision/kubectl/{made['id']}/file")
    assert said.status_code == 200
    assert f"token-of-{made['id']}" in said.content.decode()
