"""Claims that grow: what is asked of the storage, what it may answer, and what nobody waits for."""

import pytest

from runtime.capabilities.volumes import CannotGrow, Growing, SupportsGrowth
from runtime.protocol import Denied, Unreachable
from runtime.spec import Backing, Mount
from tests.drivers.kubernetes.test_apply import spec
from tests.drivers.kubernetes.test_volumes import CLASS, FOLDER, ON_CSI, ON_NFS, claim_of, ensure

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SETS = "/apis/apps/v1/statefulsets"
GIB = 2**30


@pytest.fixture
def driver(stub):
    made = stub.driver()
    yield made
    made.close()


@pytest.fixture
def bound(stub, driver):
    """A volume of 10 GiB."""
    ensure(driver, CLASS)
    give(stub, "10Gi")


def larger(gib):
    return Backing("storage-class", CLASS.options, gib * 1024)


def give(stub, size, **status):
    claim_of(stub)["status"] = {"phase": "Bound", "capacity": {"storage": size}, **status}


def fails(word, message, state=""):
    said = {"conditions": [{"type": word, "status": "True", "message": message}]}
    return {**said, "allocatedResourceStatuses": {"storage": state}} if state else said


def asked(stub):
    return claim_of(stub)["spec"]["resources"]["requests"]["storage"]


def offer(stub, name, **said):
    stub.put(CLASSES, {"metadata": {"name": name}, "provisioner": "x", **said})


def refuse(stub, method, code, message, of=""):
    def fault(handler, verb, path, _query):
        if verb == method and of in path:
            handler.refuse(code, message)
            return True
        return False

    stub.fault = fault


class TestWhatIsKnownBeforehand:
    def can(self, driver, name):
        return driver.can_grow(Backing("storage-class", {"storage_class": name}))

    def test_the_class_says_it(self, stub, driver):
        assert isinstance(driver, SupportsGrowth)
        offer(stub, "grows", allowVolumeExpansion=True)
        offer(stub, "fixed", allowVolumeExpansion=False)
        offer(stub, "silent")
        found = [self.can(driver, name) for name in ("grows", "fixed", "silent", "none")]
        assert found == [True, False, False, False]

    def test_it_is_asked_once_for_many_volumes(self, stub, driver):
        offer(stub, "grows", allowVolumeExpansion=True)
        stub.seen.clear()
        for _ in range(5):
            assert self.can(driver, "grows")
        assert len(stub.seen) == 1

    def test_what_is_ours_has_no_size_on_the_cluster(self, stub, driver):
        stub.seen.clear()
        assert all(driver.can_grow(on) for on in (FOLDER, ON_NFS, ON_CSI, Backing()))
        assert stub.seen == []

    def test_a_role_that_may_not_ask_knows_nothing_and_silence_is_no_answer(self, stub, driver):
        refuse(stub, "GET", 403, "may not")
        assert self.can(driver, "fixed")
        refuse(stub, "GET", 500, "broken")
        with pytest.raises(Unreachable):
            self.can(driver, "other")


@pytest.mark.usefixtures("bound")
class TestGrowing:
    def test_refusal_says_why_in_the_clusters_words_and_how_large_it_is(self, stub, driver):
        said = "only dynamically provisioned pvc can be resized"
        refuse(stub, "PATCH", 403, f'persistentvolumeclaims "vol-v1" is forbidden: {said}')
        with pytest.raises(CannotGrow) as refused:
            ensure(driver, larger(20))
        assert (str(refused.value), refused.value.size_mib) == (f"{said}.", 10240)
        assert isinstance(refused.value, Denied)

    def test_a_quota_of_the_namespace_refuses_it_too(self, stub, driver):
        refuse(stub, "PATCH", 403, "exceeded quota: berth, requested: requests.storage=10Gi")
        with pytest.raises(CannotGrow, match="exceeded quota"):
            ensure(driver, larger(20))

    def test_a_size_that_can_not_be_is_said_and_no_longer_asked_for(self, stub, driver):
        with pytest.raises(Growing):
            ensure(driver, larger(10**6))
        said = "failed to expand pvc with rpc error: code = OutOfRange desc = too large"
        give(stub, "10Gi", **fails("ControllerResizeError", said, "ControllerResizeInfeasible"))
        with pytest.raises(CannotGrow) as refused:
            ensure(driver, larger(10**6))
        assert (str(refused.value), refused.value.size_mib) == ("too large.", 10240)
        ensure(driver, CLASS)  # as large as it was
        assert asked(stub) == str(10 * GIB + 1)  # the least that a claim may ask for

    def test_after_it_a_size_that_can_be_is_asked_for(self, stub, driver):
        with pytest.raises(Growing):
            ensure(driver, larger(10**6))
        give(stub, "10Gi", **fails("ControllerResizeError", "no", "ControllerResizeInfeasible"))
        with pytest.raises(Growing):
            ensure(driver, larger(20))
        assert asked(stub) == "20Gi"

    def test_an_error_that_may_pass_is_told_while_it_lasts(self, stub, driver):
        with pytest.raises(Growing):
            ensure(driver, larger(20))
        give(stub, "10Gi", **fails("ControllerResizeError", "code = Internal desc = disk is busy"))
        with pytest.raises(Growing, match="says: disk is busy"):
            ensure(driver, larger(20))
        give(stub, "20Gi")
        ensure(driver, larger(20))

    def test_what_grows_well_is_not_asked_back(self, stub, driver):
        with pytest.raises(Growing):
            ensure(driver, larger(20))
        ensure(driver, CLASS)
        assert asked(stub) == "20Gi"

    def test_a_server_that_knows_no_way_back_is_let_be(self, stub, driver):
        with pytest.raises(Growing):
            ensure(driver, larger(20))
        give(stub, "10Gi", **fails("ControllerResizeError", "no", "ControllerResizeInfeasible"))
        refuse(stub, "PATCH", 422, "field can not be less than previous value")
        ensure(driver, CLASS)

    def test_work_starts_on_it_meanwhile_and_even_where_it_never_will(self, stub, driver):
        refuse(stub, "PATCH", 403, "no", of="persistentvolumeclaims")
        with pytest.raises(CannotGrow):
            ensure(driver, larger(20))
        driver.ensure(spec(mounts=(Mount("v1", name="data", backing=larger(20)),)))
        assert (SETS, "ns/ws-k7") in stub.objects
        with pytest.raises(CannotGrow):  # that it was seen says nothing of its size
            ensure(driver, larger(20))


def test_what_waits_for_its_first_pod_is_asked_for_more_after_it(stub, driver):
    """The API server lets only bound claims grow; nothing that starts may wait for that."""
    ensure(driver, CLASS)
    with pytest.raises(Growing, match="used it once"):
        ensure(driver, larger(20))
    assert asked(stub) == "10Gi"
    driver.ensure(spec(mounts=(Mount("v1", name="data", backing=larger(20)),)))
    give(stub, "10Gi")
    with pytest.raises(Growing):
        ensure(driver, larger(20))
    assert asked(stub) == "20Gi"
