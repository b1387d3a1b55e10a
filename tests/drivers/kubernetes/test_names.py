"""Any name of a person or project gives valid, distinct names on a cluster."""

import re
import uuid

from hypothesis import assume, given
from hypothesis import strategies as st

from runtime.capabilities.tenants import KubeUser
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import tenant_access

_LABEL = re.compile(r"\A[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")
_VALUE = re.compile(r"\A(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?\Z")
_PREFIXES = st.from_regex(r"\A[a-z0-9][-a-z0-9]{0,40}[a-z0-9]-?\Z").filter(lambda p: len(p) <= 42)


@given(_PREFIXES, st.text(max_size=80), st.uuids())
def test_any_project_has_a_valid_namespace(prefix, slug, uid):
    assert _LABEL.match(names.namespace(prefix, slug, str(uid)))


@given(st.text(max_size=60))
def test_projects_of_one_name_have_different_namespaces(slug):
    a, b = uuid.uuid4(), uuid.uuid4()
    assert names.namespace("berth-", slug, str(a)) != names.namespace("berth-", slug, str(b))


@given(st.text(max_size=80), st.uuids())
def test_any_workload_has_a_valid_name_and_pod(name, uid):
    made = names.workload(name, str(uid))
    assert _LABEL.match(names.pod(made))
    assert len(f"{made}-0123456789") <= 63  # the hash label that the controller adds


@given(st.text(max_size=80), st.text(max_size=80), st.uuids())
def test_names_that_differ_stay_different(one, other, uid):
    if one != other:
        assert names.workload(one, str(uid)) != names.workload(other, str(uid))


@given(st.uuids())
def test_any_persons_objects_have_valid_names(uid):
    """Cut to twelve digits, so that the names of a person's account, role and secret are short."""
    for made in (tenant_access.account_name(str(uid)), tenant_access.grant_name(str(uid))):
        assert _LABEL.match(made)
        assert len(made) <= 18


@given(st.uuids(), st.uuids(), st.uuids())
def test_persons_and_grants_that_differ_have_objects_of_their_own(project, one, other):
    """Uids are drawn by lot, so that their first 48 bits tell a project's people apart."""
    assume(one.hex[:12] != other.hex[:12])
    assert tenant_access.grant_name(str(one)) != tenant_access.grant_name(str(other))
    users = [KubeUser(str(u), viewer=True, grants=(str(u),)) for u in (one, other)]
    made = tenant_access.build(f"berth-{project}", {}, users)
    assert len({(o["kind"], o["metadata"]["name"]) for o in made}) == len(made) == 7
    for obj in made:
        if obj["kind"] == "RoleBinding":
            (subject,) = obj["subjects"]
            assert obj["roleRef"]["name"] == subject["name"] == obj["metadata"]["name"]


@given(st.text(max_size=200))
def test_any_text_is_a_label_value_or_nothing(text):
    assert _VALUE.match(names.label_value(text))


def test_a_workspace_is_called_by_its_short_id():
    assert names.workload("k7mn2p", "x") == "ws-k7mn2p"
    assert names.pod("ws-k7mn2p") == "ws-k7mn2p-0"


def test_two_portals_on_one_cluster_do_not_see_each_other():
    assert names.selector("berth-") != names.selector("other-")
    mine = names.labels("berth-", "", uid="u", kind="workspace")
    assert mine[names.INSTANCE] == "berth"
