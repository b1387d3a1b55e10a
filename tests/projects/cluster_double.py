"""A cluster that keeps namespaces in memory, for tests of places without a cluster."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runtime.capabilities.tenants import KubeToken, Settling, TenantSpec
from runtime.drivers.fake import FakeDriver
from runtime.protocol import NotYet

KEY = "alpha"


class TenantFake(FakeDriver):
    """The fake machine with places: what was changed by hand is put back, as by the real one."""

    def __init__(self) -> None:
        super().__init__(None)
        self.options = "options 1"
        self.places: dict[str, TenantSpec] = {}
        self.broken: list[str] = []
        self.ensured = 0
        self.ending = 0
        self.settles = 0  # so many tokens are asked for before the rights are known

    def ensure_tenant(self, spec: TenantSpec) -> tuple[str, ...]:
        self.ensured += 1
        broken, self.broken = tuple(self.broken), []
        before = self.places.get(spec.namespace)
        self.places[spec.namespace] = spec
        return broken if before is not None else (f"Namespace/{spec.namespace}",)

    def remove_tenant(self, uid: str, namespace: str) -> None:
        del uid
        if self.ending:
            self.ending -= 1
            raise NotYet(retry_in=0.01)
        self.places.pop(namespace, None)

    def kube_token(self, *, namespace: str, user: str, grant: str, seconds: int) -> KubeToken:
        users = {u.user: u for u in self.places[namespace].kube_users}
        if user not in users or grant not in users[user].grants:
            raise NotYet("The rights in the cluster are being made.")
        if self.settles:
            self.settles -= 1
            raise Settling("The rights in the cluster are being made.")
        import time

        return KubeToken(f"token-of-{grant}", time.time() + seconds)


@pytest.fixture
def alpha(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[TenantFake]:
    """A cluster called ``alpha`` that anybody may use."""
    from clusters import registry
    from clusters.models import Cluster
    from common import sealing

    private, public = sealing.new_pair()
    settings.BERTH_CLUSTER_PRIVATE_KEY, settings.BERTH_CLUSTER_PUBLIC_KEY = private, public
    driver = TenantFake()
    maker: Callable[[Cluster], Any] = lambda _cluster: driver  # noqa: E731 - as short as it is
    monkeypatch.setitem(registry.DRIVERS, "kubernetes", maker)
    Cluster.objects.create(
        key=KEY,
        name="Alpha",
        driver="kubernetes",
        reachable=True,
        options={"kube_api_url": "https://alpha.example.org:6443", "kube_api_ca": "PEM of alpha"},
    )
    registry.reset()
    yield driver
    registry.reset()
