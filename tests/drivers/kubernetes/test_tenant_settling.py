"""A new place is a moment behind its own rules: that is waited for, and no refusal."""

from typing import Any

import pytest

from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.protocol import NotYet, TenantSpec
from tests.drivers.kubernetes.stub import Stub

NAMESPACE = "berth-demo-7f1d2a3b"
SECRETS = "/api/v1/secrets"
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
