"""A cluster as ``web`` sees it: reads go through the process ``gate``, nothing else is possible.

``web`` holds no credential of a cluster. What it may want to know of the world at once (a log,
a measurement) is asked of the gate; everything that changes the world is the engine's.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from common.errors import BerthError
from runtime import gateway
from runtime.protocol import Health, Observation, Unreachable, WorkloadSpec

_READ_S = 5.0


class RemoteDriver:
    """SupportsLogs and SupportsMetrics by way of the gate."""

    def __init__(self, key: str) -> None:
        self.key = key

    def read_log(
        self, uid: str, *, offset: int = 0, limit: int = 65536, replica: int = 0
    ) -> tuple[bytes, int]:
        said = self._ask("driver/read_log", uid=uid, offset=offset, limit=limit, replica=replica)
        return base64.b64decode(said["data"]), int(said["offset"])

    def usage(self, uids: Iterable[str]) -> Mapping[str, Mapping[str, float]]:
        return dict(self._ask("driver/usage", uids=list(uids)).get("usage", {}))

    def volume_usage(self, volume_uid: str) -> int | None:
        used = self._ask("driver/volume_usage", uid=volume_uid).get("bytes")
        return None if used is None else int(used)

    def probe(self) -> Health:
        said = self._ask("driver/probe")
        return Health(
            reachable=bool(said.get("reachable")),
            version=str(said.get("version", "")),
            message=str(said.get("message", "")),
        )

    # --- what only workers do -------------------------------------------------------------------

    def ensure(self, spec: WorkloadSpec) -> Mapping[str, object]:
        del spec
        self._not_here()

    def observe(self, uids: Iterable[str]) -> Mapping[str, Observation]:
        del uids
        self._not_here()

    def stop(self, uid: str, *, grace_s: float) -> None:
        del uid, grace_s
        self._not_here()

    def remove(self, uid: str) -> None:
        del uid
        self._not_here()

    def list_owned(self) -> Iterable[Observation]:
        self._not_here()

    def _not_here(self) -> NoReturn:
        message = f"Only the workers act on the cluster {self.key}."
        raise Unreachable(message)

    def _ask(self, name: str, **payload: Any) -> Mapping[str, Any]:
        try:
            return gateway.ask(name, {"cluster": self.key, **payload}, timeout_s=_READ_S)
        except BerthError as error:
            raise Unreachable(error.message) from error
