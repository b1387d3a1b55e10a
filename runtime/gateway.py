"""Asking the process ``gate``: it alone (with the workers) holds the credentials of clusters.

Both sides are here, because apps below ``gate`` answer and ask: ``register`` a handler when the
app is loaded, ``ask`` from anywhere. In a process that holds the private key (worker, gate, all
of them on one machine) the handler runs at once; elsewhere the question goes to the gate's
internal listener. Errors of ``common.errors`` come back as what they were.
"""

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import httpx
from django.conf import settings
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from common import trust
from common.errors import BerthError, NotFound, Unavailable
from common.hooks import Hook
from runtime.protocol import Health, Observation, Unreachable
from runtime.spec import WorkloadSpec

Handler = Callable[[Mapping[str, Any]], Mapping[str, Any]]
MAX_ANSWER = 16 * 1024 * 1024
_CONNECT_S = 2.0
_handlers: dict[str, Handler] = {}
_outside: set[str] = set()
# Whether the gate is needed although no cluster is attached; each app says it of its own.
wanted: Hook[[], bool] = Hook()


def register(name: str, handler: Handler, *, outside: bool = False) -> None:
    """Answer ``ask(name, …)``. The handler is synchronous and gets and gives plain JSON.

    ``outside``: it waits for servers that people name, so it gets few threads of its own.
    """
    _handlers[name] = handler
    (_outside.add if outside else _outside.discard)(name)


def is_outside(name: str) -> bool:
    return name in _outside


def handler_of(name: str) -> Handler:
    try:
        return _handlers[name]
    except KeyError:
        raise NotFound("Nothing answers to that.") from None


def ask(name: str, payload: Mapping[str, Any], *, timeout_s: float = 5.0) -> Mapping[str, Any]:
    """Return the answer of the handler ``name``; Unavailable when the gate does not answer."""
    if bool(getattr(settings, "BERTH_CLUSTER_PRIVATE_KEY", "")):
        return handler_of(name)(payload)
    url = f"{settings.BERTH_GATE_INTERNAL_URL}/internal/{name}"
    headers = {
        "Authorization": f"Bearer {settings.BERTH_GATE_TOKEN}",
        "Accept-Language": get_language() or settings.LANGUAGE_CODE,
    }
    timeout = httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s))
    try:
        with (
            httpx.Client(verify=trust.public(), timeout=timeout, trust_env=False) as client,
            client.stream("POST", url, json=dict(payload), headers=headers) as response,
        ):
            return _answer(response)
    except httpx.HTTPError as error:
        raise Unavailable(_("The gate to the clusters does not answer; try again.")) from error


def _answer(response: httpx.Response) -> Mapping[str, Any]:
    body = bytearray()
    for part in response.iter_bytes():
        body += part
        if len(body) > MAX_ANSWER:
            raise Unavailable(_("The answer of the gate is too large."))
    try:
        said: dict[str, Any] = json.loads(bytes(body))
    except ValueError as error:
        raise Unavailable(_("The gate to the clusters answered nonsense.")) from error
    if response.is_success:
        return said
    raise error_of(response.status_code, said)


def error_of(status: int, said: Mapping[str, Any]) -> BerthError:
    """Return the error that the other side raised."""
    if status in {httpx.codes.UNAUTHORIZED, httpx.codes.INTERNAL_SERVER_ERROR}:
        return Unavailable(_("The gate to the clusters could not answer."))
    error = BerthError(
        str(said.get("message", "")),
        code=str(said.get("code", "error")),
        fields=said.get("fields") or None,
        extra=said.get("extra") or None,
    )
    error.status = status
    return error


def told(error: BerthError) -> dict[str, Any]:
    """Return what ``error_of`` reads."""
    return {
        "message": error.message,
        "code": error.code,
        "fields": error.fields,
        "extra": error.extra,
    }


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
        raise Unreachable(f"Only the workers act on the cluster {self.key}.")

    def _ask(self, name: str, **payload: Any) -> Mapping[str, Any]:
        try:
            return ask(name, {"cluster": self.key, **payload}, timeout_s=_READ_S)
        except BerthError as error:
            raise Unreachable(error.message) from error
