"""C7: nothing that a person sends names an object in somebody else's namespace.

Kubernetes has fields that do (a claim's ``dataSourceRef``, a route's parents and backends). Our
documents and bodies are closed shapes of our own, so that each of these is refused by name.
"""

import pytest

from common import manifests
from projects.models import Project

pytestmark = pytest.mark.django_db
API = "/api/v1/projects/vision"
THEIRS = {"kind": "PersistentVolumeClaim", "name": "vol-theirs", "namespace": "berth-theirs"}
REFERENCES = {
    "dataSource": THEIRS,
    "dataSourceRef": {**THEIRS, "apiGroup": ""},
    "volumeName": "berth-theirs",
    "claimRef": THEIRS,
    "persistentVolumeClaim": {"claimName": "vol-theirs"},
    "namespace": "berth-theirs",
    "parentRefs": [{"name": "gateway", "namespace": "berth-theirs"}],
    "backendRefs": [{"name": "ws-theirs", "namespace": "berth-theirs"}],
    "hostnames": ["theirs.nb.example.org"],
    "serviceAccountName": "theirs",
    "envFrom": [{"secretRef": {"name": "theirs"}}],
    "imagePullSecrets": [{"name": "theirs"}],
    "ownerReferences": [{"kind": "Namespace", "name": "berth-theirs"}],
}
DOORS = {"Workspace": "workspaces", "Volume": "volumes", "Load": "loads", "Job": "jobs"}


@pytest.fixture
def call(as_user, alice, project):
    """What a manager of the project sends, to a path below it."""
    client = as_user(alice)

    def act(path, body):
        return client.post(f"{API}/{path}", body, content_type="application/json")

    return act


@pytest.mark.parametrize("field", sorted(REFERENCES))
@pytest.mark.parametrize("kind", sorted(DOORS))
def test_c7_a_reference_in_a_document_is_refused_by_name(call, kind, field):
    for part, where in (("spec", f"spec.{field}"), ("metadata", f"metadata.{field}")):
        asked = manifests.wrap(kind, "mine", "", {})
        asked[part] = {**asked[part], field: REFERENCES[field]}
        answer = call(f"{DOORS[kind]}/apply", asked)
        assert answer.status_code == 400, answer.content
        assert where in answer.json()["fields"]


@pytest.mark.parametrize("field", sorted(REFERENCES))
@pytest.mark.parametrize("kind", sorted(DOORS))
def test_c7_a_reference_in_a_body_is_refused_by_name(call, kind, field):
    answer = call(DOORS[kind], {"name": "x", field: REFERENCES[field]})
    assert answer.status_code == 400, answer.content
    assert field in answer.json()["fields"]


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("v1", "PersistentVolumeClaim"),
        ("gateway.networking.k8s.io/v1", "HTTPRoute"),
        ("networking.istio.io/v1", "VirtualService"),
        ("gateway.networking.k8s.io/v1beta1", "ReferenceGrant"),
        ("berth.dev/v1", "HTTPRoute"),
    ],
)
def test_c7_objects_of_kubernetes_are_no_documents_of_ours(call, version, kind):
    spec = {"dataSourceRef": THEIRS}
    asked = {"apiVersion": version, "kind": kind, "metadata": {"name": "mine"}, "spec": spec}
    for door in DOORS.values():
        answer = call(f"{door}/apply", asked)
        assert answer.status_code == 400, answer.content
        assert set(answer.json()["fields"]) & {"apiVersion", "kind"}


@pytest.mark.parametrize("kind", sorted(DOORS))
def test_c7_a_document_cannot_name_another_project(call, kind):
    """Not even one in which the person may do everything: the door says where it goes."""
    Project.objects.create(name="Theirs", slug="theirs")
    answer = call(f"{DOORS[kind]}/apply", manifests.wrap(kind, "m", "theirs", {}))
    assert answer.status_code == 400
    assert "metadata.project" in answer.json()["fields"]
