"""What another Berth made under our prefix is never removed, changed or taken for ours."""

import dataclasses

import pytest

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.drivers.kubernetes.namespaces import Leaving
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.tenant import Tenants
from runtime.protocol import InvalidSpec
from tests.drivers.kubernetes.stub import ALLOW, QUICK, remove
from tests.drivers.kubernetes.tenant_world import OPTIONS, SPEC, Api
from tests.drivers.kubernetes.test_apply import SECRETS, SETS, spec

UID = spec().uid
SPACES = "/api/v1/namespaces"
OURS, THEIRS = "0b6a4c1e-0000-4000-8000-0000000000aa", "0b6a4c1e-0000-4000-8000-0000000000bb"


@pytest.fixture
def berth(stub):
    """Make drivers of one installation or the other on the same cluster."""
    made = []

    def of(installation):
        options = KubernetesOptions(installation=installation)
        driver = KubernetesDriver(stub.access(), options, "stub", check=ALLOW)
        driver.client.patience = QUICK
        made.append(driver)
        return driver

    yield of
    for driver in made:
        driver.close()


def kinds(stub):
    return {collection for collection, _key in stub.objects}


def test_everything_of_a_workload_says_which_berth_made_it(stub, berth):
    berth(OURS).ensure(spec())
    assert kinds(stub) >= {SETS, SECRETS}
    for obj in stub.objects.values():
        assert obj["metadata"]["labels"][names.INSTALLATION] == OURS
    (made,) = [o for (collection, _), o in stub.objects.items() if collection == SETS]
    assert made["spec"]["template"]["metadata"]["labels"][names.INSTALLATION] == OURS


def test_what_is_listed_says_whose_it_is(stub, berth):
    berth(THEIRS).ensure(spec())
    assert [o.installation for o in berth(OURS).list_owned()] == [THEIRS]


def test_anothers_workload_is_not_removed_although_it_has_our_uid(stub, berth):
    berth(THEIRS).ensure(spec())
    before = set(stub.objects)
    remove(berth(OURS), UID)
    assert set(stub.objects) == before


def test_anothers_workload_is_not_overwritten(stub, berth):
    berth(THEIRS).ensure(spec())
    with pytest.raises(InvalidSpec, match="is not this workload"):
        berth(OURS).ensure(dataclasses.replace(spec(), launch=2))


def test_what_was_made_before_there_were_marks_gets_ours_and_nothing_else_changes(stub, berth):
    berth("").ensure(spec())
    ((place, before),) = [(k, o) for k, o in stub.objects.items() if k[0] == SETS]
    berth(OURS).adopt(UID)
    after = stub.objects[place]
    assert after["metadata"]["labels"][names.INSTALLATION] == OURS
    assert after["spec"] == before["spec"]
    berth(THEIRS).adopt(UID)
    assert stub.objects[place]["metadata"]["labels"][names.INSTALLATION] == OURS


def place_of(installation, options=OPTIONS):
    return dataclasses.replace(options, installation=installation)


def test_anothers_place_is_neither_written_to_nor_removed():
    api = Api()
    Tenants(api, place_of(THEIRS)).ensure(SPEC)
    before = dict(api.objects)
    ours = Tenants(api, place_of(OURS))
    with pytest.raises(InvalidSpec, match="made by another Berth"):
        ours.ensure(SPEC)
    ours.remove(SPEC.uid, SPEC.namespace)
    assert api.objects == before


def test_a_place_of_before_there_were_marks_gets_ours():
    api = Api()
    Tenants(api, place_of("")).ensure(SPEC)
    Tenants(api, place_of(OURS)).ensure(SPEC)
    for key, obj in api.objects.items():
        if not key.startswith("Secret/"):
            assert obj["metadata"]["labels"][names.INSTALLATION] == OURS, key


def test_no_first_place_is_made_where_another_berth_has_our_prefix(stub, berth):
    theirs = names.labels("berth-", THEIRS, uid="other", kind="place")
    stub.put(SPACES, {"metadata": {"name": "berth-theirs-1", "labels": theirs}})
    with pytest.raises(InvalidSpec, match=r"berth-theirs-1.*choose another prefix"):
        berth(OURS).ensure_tenant(SPEC)
    assert len(stub.objects) == 1


def test_a_namespace_of_another_berth_stays_when_a_cluster_is_left(stub):
    labels = names.labels("berth-", THEIRS, uid=SPEC.uid, kind="place")
    stub.put(SPACES, {"metadata": {"name": "berth-demo", "labels": labels}})
    client = stub.client()
    try:
        why = Leaving(client, OURS).remove_if_empty("berth-demo", SPEC.uid)
    finally:
        client.close()
    assert why == "made by another Berth"
