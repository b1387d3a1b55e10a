"""A new place is a moment behind its own rules: that is waited for, and no refusal."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runtime.capabilities.tenants import Settling, TenantSpec
from runtime.drivers.kubernetes.api_server import SETTLES_S
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.protocol import Denied, NotYet
from tests.drivers.kubernetes.stub import Stub

NAMESPACE = "berth-demo-7f1d2a3b"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/rolebindings"
SPEC = TenantSpec(
    uid="0b6a4c1e-0000-4000-8000-00000000000a",
    project="7f1d2a3b-0000-4000-8000-00000000000b",
    slug="demo",
    namespace=NAMESPACE,
    generation=1,
)
UNCOUNTED = (
    'secrets "berth-registries" is forbidden: status unknown for quota: objects, resources: secrets'
)


class TestQuotas:
    def test_a_quota_that_nobody_has_counted_yet_is_waited_for(
        self, stub: Stub, driver: KubernetesDriver
    ) -> None:
        counted = False

        def fault(handler: Any, method: str, path: str, _query: Any) -> bool:
            is_refused = method == "PATCH" and "/secrets/" in path and not counted
            if is_refused:
                handler.refuse(403, UNCOUNTED)
            return is_refused

        stub.fault = fault
        with pytest.raises(NotYet) as told:
            driver.ensure_tenant(SPEC)
        assert told.value.retry_in <= 1
        counted = True
        assert driver.ensure_tenant(SPEC) == (
            f"Namespace/{NAMESPACE}",
            "Secret/berth-registries",
        )
        assert driver.ensure_tenant(SPEC) == ()


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="seconds")


class Portal:
    """The API server takes the portal's own binding and knows nothing of it until it is told to."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub
        self.is_known = False
        stub.fault = self._fault

    def _fault(self, handler: Any, method: str, path: str, _query: Any) -> bool:
        is_own = "/rolebindings/berth-portal" in path
        if method == "PATCH" and is_own:
            handler.given["metadata"]["creationTimestamp"] = ago(0)
        is_refused = method == "PATCH" and f"/{NAMESPACE}/" in path and not is_own
        if is_refused and not self.is_known:
            handler.refuse(403, 'secrets "x" is forbidden: User "worker" cannot patch resource')
            return True
        return False

    def written(self, seconds_ago: float, **more: Any) -> None:
        """Say when the binding was made, and by whom it was changed since."""
        binding = self.stub.objects[BINDINGS, f"{NAMESPACE}/berth-portal"]
        binding["metadata"] |= {"creationTimestamp": ago(seconds_ago), **more}


class TestThePortalsOwnRights:
    @pytest.fixture
    def driver(self, stub: Stub) -> Iterator[KubernetesDriver]:
        made = stub.driver(portal_role="berth-projects", portal_account="berth/worker")
        yield made
        made.close()

    @pytest.fixture
    def portal(self, stub: Stub) -> Portal:
        return Portal(stub)

    def test_a_place_waits_for_rights_that_were_just_given(
        self, portal: Portal, driver: KubernetesDriver
    ) -> None:
        for _try in range(2):  # the second finds the binding as it should be
            with pytest.raises(NotYet) as told:
                driver.ensure_tenant(SPEC)
            assert told.value.retry_in <= 1
        portal.is_known = True
        assert "NetworkPolicy/default-deny" in driver.ensure_tenant(SPEC)

    def test_a_refusal_that_lasts_is_told(self, portal: Portal, driver: KubernetesDriver) -> None:
        with pytest.raises(NotYet):
            driver.ensure_tenant(SPEC)
        portal.written(SETTLES_S + 1)
        with pytest.raises(Denied, match="cannot patch"):
            driver.ensure_tenant(SPEC)

    @pytest.mark.parametrize(("who", "answer"), [("berth", NotYet), ("somebody", Denied)])
    def test_an_old_binding_settles_when_we_put_it_right_and_not_when_others_touch_it(
        self, portal: Portal, driver: KubernetesDriver, who: str, answer: type[Exception]
    ) -> None:
        with pytest.raises(NotYet):
            driver.ensure_tenant(SPEC)
        portal.written(3600, managedFields=[{"manager": who, "time": ago(1)}])
        with pytest.raises(answer):
            driver.ensure_tenant(SPEC)

    def test_an_identity_with_rights_of_its_own_is_refused_at_once(self, stub: Stub) -> None:
        Portal(stub)
        driver = stub.driver()
        with pytest.raises(Denied):
            driver.ensure_tenant(SPEC)
        driver.close()


class TestTheRightsOfAPerson:
    USER = "a11ce000-0000-4000-8000-000000000001"
    GRANT = "6ea47000-0000-4000-8000-000000000002"

    @pytest.fixture
    def answers(self, stub: Stub) -> dict[str, Any]:
        """What a server says of the rights of whoever asks with the token that it gives."""
        given: dict[str, Any] = {"status": 201, "body": {"status": {"allowed": False}}, "asked": []}

        def fault(handler: Any, method: str, path: str, _query: Any) -> bool:
            if method != "POST":
                return False
            if path.endswith("/serviceaccounts/user-a11ce0000000/token"):
                until = (datetime.now(UTC) + timedelta(seconds=900)).isoformat(timespec="seconds")
                status = {"token": "of-the-person", "expirationTimestamp": until}
                handler.say(201, {"status": status})
                return True
            given["asked"].append(handler.headers["Authorization"])
            handler.say(given["status"], given["body"])
            return True

        stub.fault = fault
        stub.put("/api/v1/secrets", _named("grant-6ea470000000"))
        stub.put(BINDINGS, _named("user-a11ce0000000", creationTimestamp=ago(0)))
        return given

    def token(self, driver: KubernetesDriver) -> str:
        made = driver.kube_token(namespace=NAMESPACE, user=self.USER, grant=self.GRANT, seconds=900)
        return made.token

    def test_a_first_token_waits_until_the_person_may_use_it(
        self, driver: KubernetesDriver, answers: dict[str, Any]
    ) -> None:
        with pytest.raises(Settling):
            self.token(driver)
        answers["status"] = 401  # not even the account is known there
        with pytest.raises(Settling):
            self.token(driver)
        answers.update(status=201, body={"status": {"allowed": True}})
        assert self.token(driver) == "of-the-person"
        assert set(answers["asked"]) == {"Bearer of-the-person"}

    def test_rights_that_are_known_for_long_are_not_asked_about(
        self, stub: Stub, driver: KubernetesDriver, answers: dict[str, Any]
    ) -> None:
        old = ago(SETTLES_S + 1)
        stub.put(BINDINGS, _named("user-a11ce0000000", creationTimestamp=old))
        assert self.token(driver) == "of-the-person"
        assert answers["asked"] == []

    def test_a_server_that_does_not_say_keeps_nobody_waiting(
        self, driver: KubernetesDriver, answers: dict[str, Any]
    ) -> None:
        answers.update(status=403, body={"kind": "Status", "message": "no", "status": "Failure"})
        assert self.token(driver) == "of-the-person"


def _named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": NAMESPACE, **more}}


def test_e10_a_namespace_that_is_made_again_gets_its_claims_again_too(
    stub: Stub, driver: KubernetesDriver
) -> None:
    """What was seen is believed for a minute, but not beyond the namespace in which it was seen."""
    claim = ("/api/v1/persistentvolumeclaims", f"{NAMESPACE}/vol-h1")
    given = {"project": SPEC.project, "owner": "o", "namespace": NAMESPACE}
    driver.ensure_tenant(SPEC)
    driver.ensure_volume("h1", **given)
    for collection, place in list(stub.objects):
        if NAMESPACE in place:
            stub.drop(collection, *place.split("/"))
    assert claim not in stub.objects
    driver.ensure_tenant(SPEC)
    driver.ensure_volume("h1", **given)
    assert claim in stub.objects
