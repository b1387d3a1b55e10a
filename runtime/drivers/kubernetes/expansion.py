"""Claims of a storage class become larger by asking for more; the storage does it in its time."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import NoReturn

from runtime.capabilities import CannotGrow, Growing
from runtime.drivers.kubernetes.builders import volume as build
from runtime.drivers.kubernetes.builders.tenant.limits import binary
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.metrics import quantity
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Backing, Denied, InvalidSpec

_CLAIMS = "persistentvolumeclaims"
_MIB = 2**20
_KNOWN_S = 300.0  # for so long what a class says is not asked again
_LATER = frozenset(("FileSystemResizePending", "NodeResizePending"))
_ERRORS = frozenset(("ControllerResizeError", "NodeResizeError"))
_NEVER = frozenset(("ControllerResizeInfeasible", "NodeResizeInfeasible"))


@dataclass(frozen=True)
class _Sizes:
    """What a claim asks for and has, in bytes, and what is said of the way there."""

    asked: int
    given: int | None  # None: it is not bound yet
    waits: bool  # the rest is done when something mounts it
    never: bool  # the storage says that this size can't be
    error: str

    @property
    def fails(self) -> bool:
        return self.never or bool(self.error)

    @classmethod
    def of(cls, claim: Object) -> _Sizes:
        status = claim.get("status") or {}
        holds = [c for c in status.get("conditions") or [] if c.get("status") == "True"]
        errors = [str(c.get("message") or c["type"]) for c in holds if c["type"] in _ERRORS]
        given = (status.get("capacity") or {}).get("storage")
        is_bound = status.get("phase") == "Bound" and given is not None
        return cls(
            asked=int(quantity(str(claim["spec"]["resources"]["requests"]["storage"]))),
            given=int(quantity(str(given))) if is_bound else None,
            waits=any(c["type"] in _LATER for c in holds),
            never=(status.get("allocatedResourceStatuses") or {}).get("storage") in _NEVER,
            error=_plain(errors[-1]) if errors else "",
        )


class Growth:
    """``SupportsGrowth`` of one cluster."""

    def __init__(self, client: KubeClient, options: KubernetesOptions) -> None:
        self._client = client
        self._options = options
        self._classes: dict[str, tuple[float, bool]] = {}  # asked when, whether its volumes grow

    def can(self, backing: Backing) -> bool:
        """What is ours has no size of its own on the cluster; a class says it of its volumes."""
        on = build.resolved(backing, self._options)
        name = on.options.get("storage_class", "") if on.kind == build.CLASS else ""
        if not name:
            return True
        at, can = self._classes.get(name, (-_KNOWN_S, True))
        if time.monotonic() - at >= _KNOWN_S:
            can = self._allows(name)
            self._classes[name] = (time.monotonic(), can)
        return can

    def _allows(self, name: str) -> bool:
        """A role that may not read classes knows nothing: then the API server has the word."""
        try:
            found = self._client.get("storage.k8s.io/v1", "storageclasses", name)
        except Denied:
            return True
        return found is not None and found.get("allowVolumeExpansion") is True

    def grow(self, claim: Object, on: Backing) -> None:
        """Ask for more where that is wanted; what was given is never taken back.

        Growing until it is given, CannotGrow where it never is.
        """
        if on.size_mib is None:
            return
        wanted, sizes = on.size_mib * _MIB, _Sizes.of(claim)
        if sizes.given is None:
            if sizes.asked < wanted:  # the API server would refuse it
                raise Growing("It grows as soon as something used it once.", retry_in=10.0)
        elif sizes.asked < wanted:
            self._ask(claim, wanted, sizes.asked)
        elif sizes.given >= wanted:
            self._let_be(claim, sizes)
        elif sizes.fails and sizes.asked > wanted:  # of what was asked before; this may be possible
            self._ask(claim, wanted, sizes.given)
        elif sizes.never:
            said = sizes.error or "The storage can't give this size."
            raise CannotGrow(said, size_mib=sizes.given // _MIB)
        elif not sizes.waits:
            said = f"The storage says: {sizes.error}" if sizes.error else ""
            raise Growing(said or "The storage has not made it larger yet.", retry_in=5.0)

    def _let_be(self, claim: Object, sizes: _Sizes) -> None:
        """Nobody wants any more what the storage fails to give: else it comes one day uncounted.

        A claim can't ask for exactly what it has, only for more. An API server that knows no way
        back refuses it, and there is nothing else to do.
        """
        if sizes.given is not None and sizes.fails and sizes.asked > sizes.given + 1:
            with contextlib.suppress(Denied, InvalidSpec):
                self._write(claim, sizes.given + 1)

    def _ask(self, claim: Object, size: int, before: int) -> NoReturn:
        try:
            self._write(claim, size)
        except (Denied, InvalidSpec) as error:
            raise CannotGrow(_plain(str(error)), size_mib=before // _MIB) from error
        raise Growing("The storage was asked to make it larger.", retry_in=1.0)

    def _write(self, claim: Object, size: int) -> None:
        meta = claim["metadata"]
        text = str(size) if size % _MIB else binary(size // _MIB, "Mi")
        change = {"spec": {"resources": {"requests": {"storage": text}}}}
        self._client.patch("v1", _CLAIMS, meta["name"], meta["namespace"], change)


def _plain(text: str) -> str:
    """Without what programs put before each other's words."""
    for mark in ("is forbidden: ", " desc = "):
        text = text.rpartition(mark)[2]
    text = " ".join(text.split())[:300]
    return text if text.endswith((".", "!", "?")) else f"{text}."
