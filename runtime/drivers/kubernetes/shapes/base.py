"""What every shape needs to look and to act, and what it promises."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.logs import Logs
from runtime.drivers.kubernetes.observe import Sight
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Observation
from runtime.spec import WorkloadSpec

Pod = TypeVar("Pod", bound=Mapping[str, Any])


@dataclass(frozen=True)
class Hands:
    """What acts on one cluster."""

    client: KubeClient
    logs: Logs
    installation: str = ""

    def pods(self, owner: Object) -> list[Object]:
        """Return all pods of the workload, of whatever launch: those that carry its uid."""
        meta = owner["metadata"]
        uid = (meta.get("labels") or {}).get(names.UID, "")
        return self.client.list("v1", "pods", meta["namespace"], f"{names.UID}={uid}")


class Shape(Protocol):
    """One way in which a cluster runs a workload. All but ``must_write`` and ``stop`` are pure."""

    @property
    def VERSION(self) -> str: ...  # noqa: N802 - a module's constant

    @property
    def PLURAL(self) -> str: ...  # noqa: N802

    @property
    def KIND(self) -> str: ...  # noqa: N802

    def build(
        self, spec: WorkloadSpec, options: KubernetesOptions, *, files: bool = False
    ) -> list[Object]:
        """Return its objects in the order in which they are written: what owns the pods is last."""

    def pods(self, owner: Mapping[str, Any], pods: Iterable[Pod]) -> list[Pod | None]:
        """Return the pod of each replica, by number; None: there is none (yet, or any more)."""

    def observe(self, sights: Sequence[Sight]) -> Observation:
        """Return what the workload is, from what is known of each replica."""

    def must_write(self, hands: Hands, owner: Object, spec: WorkloadSpec) -> bool:
        """False: this launch or a later one is made. NotYet: an older one must end first."""

    def stop(self, hands: Hands, owner: Object, *, grace_s: float) -> None:
        """End all its pods, keep the record of how it ended. NotYet until they are gone."""

    def remove(self, hands: Hands, owner: Object) -> None:
        """Take it away, with what was written with it besides Secrets."""

    def beside(self, owner: Mapping[str, Any]) -> list[tuple[str, str, str]]:
        """Return what was written with it besides Secrets: apiVersion, plural, name."""


def firsts(
    of: Callable[[Object, list[Object]], list[Object | None]], owner: Object, pods: list[Object]
) -> list[Object]:
    """Return those that are or were the first replica of this launch. ``of``: ``Shape.pods``."""
    return [pod for pod in pods if of(owner, [pod])[:1] == [pod]]
