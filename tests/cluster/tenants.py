"""Two projects on the real cluster, each in a namespace of its own, for the tests of isolation."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from devcluster.kube import Kube
from runtime.capabilities.tenants import TenantSpec
from runtime.drivers.kubernetes import access, kubeconfig, names
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import NotYet

T = TypeVar("T")

# A listener of the test on this machine stands for the portal's; portals of other lanes have theirs
# in the range of ``tests.support.ports``.
HUB_PORT = 12802
PREFIX = "h3-"
THERE_WITHIN_S = 180.0  # patience with a busy machine; nothing here is about how soon
NOBODY = "192.0.2.1"  # where it is not known what this machine is to pods: for the shape only


@dataclass
class World:
    """Driver, administrator's client, and what is to be removed at the end."""

    state: dict[str, Any]
    kube: Kube
    driver: KubernetesDriver
    made: list[TenantSpec]

    def tenant(self, slug: str, **more: Any) -> TenantSpec:
        project = str(uuid.uuid4())
        spec = TenantSpec(
            uid=str(uuid.uuid4()),
            project=project,
            slug=slug,
            namespace=names.namespace(self.driver.options.namespace_prefix, slug, project),
            generation=1,
            **more,
        )
        self.made.append(spec)
        return spec

    def ensure(self, spec: TenantSpec, **more: Any) -> TenantSpec:
        """Make it (again); 403 and the like are real errors here."""
        spec = replace(spec, **more)
        self.put(spec)
        return spec

    def put(self, spec: TenantSpec) -> tuple[str, ...]:
        """Return what was made or put back; a cluster that is not there yet is asked again."""
        return when_there(lambda: self.driver.ensure_tenant(spec))

    def close(self) -> None:
        for spec in self.made:
            self.kube.delete("v1", "Namespace", spec.namespace)
        self.driver.close()


def when_there(act: Callable[[], T]) -> T:
    """Do as the engine does with an answer that says when to come again."""
    deadline = time.monotonic() + THERE_WITHIN_S
    while True:
        try:
            return act()
        except NotYet as answer:
            if time.monotonic() > deadline:
                raise
            time.sleep(answer.retry_in)


def world(state: dict[str, Any], kube: Kube, **options: Any) -> World:
    host = state.get("host", NOBODY)
    given = KubernetesOptions(
        namespace_prefix=f"{PREFIX}{secrets.token_hex(2)}-",
        hub_url=f"http://{host}:{HUB_PORT}",
        hub_peers=(f"{host}/32",),
        proxy_peers=(f"{host}/32",),
        volume_path=state.get("volumes", KubernetesOptions.volume_path),
    )
    driver = KubernetesDriver(
        kubeconfig.parse(Path(state["kubeconfig"]).read_text()),
        replace(given, **options),
        "test",
        check=access.check_for(loopback=True),
    )
    return World(state, kube, driver, [])
