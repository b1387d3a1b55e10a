"""A place of its own on a cluster for each project, and kubectl there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from runtime.protocol import NotYet


@dataclass(frozen=True)
class KubeUser:
    """What one member may do with kubectl in one project's namespace."""

    user: str  # user uid
    viewer: bool  # may look at the project's workloads
    pods: tuple[str, ...] = ()  # may exec into, read logs of and forward ports of these
    grants: tuple[str, ...] = ()  # uids of what tokens are bound to; one that is gone ends them


@dataclass(frozen=True)
class TenantSpec:
    """One project on one cluster: a namespace with everything that keeps it to itself.

    ``registries`` gives registry host → (user, password) when the driver really writes;
    ``kube_users`` are members who hold a kubeconfig, with the pods that are their own.
    """

    uid: str  # of the row that stands for it
    project: str  # project uid
    slug: str
    namespace: str
    generation: int
    registries: Callable[[], Mapping[str, tuple[str, str]]] = dict
    registries_version: str = ""  # changes whenever ``registries`` would answer otherwise
    kube_users: tuple[KubeUser, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    closed: tuple[str, ...] = ()  # ranges that are public and nobody's business: the nodes'
    # Of all that it is made from; seen again in ``detail["mark"]``. Another one there is another
    # maker's: a worker that was late, and wrote what was wanted before.
    mark: str = ""
    revoked: tuple[str, ...] = ()  # grants that the row knew and wants no more


@dataclass(frozen=True)
class KubeToken:
    """A short-lived credential for kubectl. ``expires_at`` in Unix seconds."""

    token: str
    expires_at: float


@runtime_checkable
class SupportsTenants(Protocol):
    """A cluster where each project gets a place of its own before anything runs in it.

    What becomes of it is seen by ``watch`` and ``observe`` under ``TenantSpec.uid`` with kind
    ``place``: READY when it is as it should be; ``detail["drift"]`` names objects (``Kind/name``)
    that somebody changed or removed by hand since the last ``ensure_tenant``.
    """

    def ensure_tenant(self, spec: TenantSpec) -> tuple[str, ...]:
        """Make it as it should be; return what had been changed by hand (``Kind/name``).

        Of a new one that is all of it. An error on the way names what was put back before it.
        """

    def remove_tenant(self, uid: str, namespace: str) -> None:
        """Remove it with all that is in it. NotYet while ending."""


class Settling(NotYet):
    """All of it is made, a moment ago; there is nothing to do but to ask again."""


@runtime_checkable
class SupportsKubeTokens(Protocol):
    def kube_token(self, *, namespace: str, user: str, grant: str, seconds: int) -> KubeToken:
        """Return a token for kubectl that ends with the grant.

        NotYet until the place has it, Settling while its rights are not known everywhere.
        """
