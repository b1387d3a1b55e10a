"""A thin gateway to one API server: plain dictionaries over one pool of connections.

Every verb here may be repeated: reads, server-side apply, merge patches of fixed values and
deletes. So a request whose answer was lost is simply sent again, and "it was made after all"
is success. Redirects are not followed and proxies of the machine are not used.
"""

from __future__ import annotations

import builtins
import itertools
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from runtime.drivers.kubernetes import answers, names
from runtime.drivers.kubernetes.access import Check, KubeAccess
from runtime.drivers.kubernetes.answers import Answer, NoAnswer, raise_for
from runtime.protocol import Unreachable

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

Object = dict[str, Any]

APPLY, MERGE, JSON = (
    "application/apply-patch+yaml",
    "application/merge-patch+json",
    "application/json",
)
_AGAIN = frozenset({429, 500, 502, 503, 504})
_PAGE = 500
_PLURALS = {
    "StatefulSet": "statefulsets",
    "NetworkPolicy": "networkpolicies",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "Topology": "topologies",
}


@dataclass(frozen=True)
class Patience:
    """Bounds of one call, all attempts together. Seconds."""

    connect: float = 3.0
    read: float = 10.0
    total: float = 20.0
    attempts: int = 4
    pause: float = 0.15  # before the second attempt; doubles
    wait_max: float = 5.0  # the longest Retry-After that is waited for


class KubeClient:
    """Thread-safe. ``writes`` counts requests that may change something (for tests).

    A server that was silent is asked once by each call, not again and again, until it has
    answered one: it must not hold the threads that others need.
    """

    def __init__(
        self,
        access: KubeAccess,
        *,
        check: Check,
        patience: Patience | None = None,
        connections: int = 32,
    ) -> None:
        # Where there is no cluster, no process holds the official client's 30 MiB.
        from runtime.drivers.kubernetes.connection import Connection

        self.access = access
        self.patience = patience or Patience()
        self.check = check
        self._connection = Connection(access, check, connections)
        self._writes = itertools.count()
        self.writes = 0
        self.answered_at = time.monotonic()  # the last good answer, whoever asked
        self.is_silent = False
        self.back_at = 0.0  # when a silence ended

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def as_holder_of(self, token: str) -> Iterator[KubeClient]:
        """Ask the same server as somebody else, over a connection without our certificate."""
        access = replace(
            self.access, token=token, token_file="", client_cert_pem="", client_key_pem=""
        )
        made = KubeClient(access, check=self.check, patience=self.patience, connections=1)
        try:
            yield made
        finally:
            made.close()

    # --- verbs ------------------------------------------------------------------------------
    def get(self, api_version: str, plural: str, name: str, namespace: str = "") -> Object | None:
        answer = self.request("GET", path_of(api_version, plural, name, namespace))
        return None if answer.status == 404 else _object(raise_for(answer))  # noqa: PLR2004

    def list(
        self,
        api_version: str,
        plural: str,
        namespace: str = "",
        selector: str = "",
        fields: str = "",
    ) -> list[Object]:
        """Return everything, in pages."""
        pages = self.pages(api_version, plural, namespace, selector, fields)
        return [row for rows, _said in pages for row in rows]

    def pages(
        self,
        api_version: str,
        plural: str,
        namespace: str = "",
        selector: str = "",
        fields: str = "",
    ) -> Iterator[tuple[builtins.list[Object], Object]]:
        """Yield page by page what is asked for, and what is said of each: ``continue`` if more."""
        params = {"limit": str(_PAGE), "labelSelector": selector, "fieldSelector": fields}
        path = path_of(api_version, plural, "", namespace)
        while True:
            page = _page(raise_for(self.request("GET", path, params)).body, plural)
            said = page.get("metadata") or {}
            yield page.get("items") or [], said
            if not said.get("continue"):
                return
            params["continue"] = said["continue"]

    def apply(
        self, obj: Mapping[str, Any], *, manager: str = names.MANAGER, dry_run: bool = False
    ) -> Object:
        """Server-side apply: it is as described afterwards, whoever changed it before.

        ``dry_run``: only whether it would be taken.
        """
        meta = obj["metadata"]
        path = path_of(
            obj["apiVersion"], plural_of(obj["kind"]), meta["name"], meta.get("namespace", "")
        )
        params = {"fieldManager": manager, "force": "true", "dryRun": "All" if dry_run else ""}
        return _object(raise_for(self.request("PATCH", path, params, obj, APPLY)))

    def patch(
        self, api_version: str, plural: str, name: str, namespace: str, change: Mapping[str, Any]
    ) -> Object | None:
        """Merge ``change`` in; None when it is not there."""
        path = path_of(api_version, plural, name, namespace)
        answer = self.request("PATCH", path, {"fieldManager": names.MANAGER}, change, MERGE)
        return None if answer.status == 404 else _object(raise_for(answer))  # noqa: PLR2004

    def delete(
        self,
        api_version: str,
        plural: str,
        name: str,
        namespace: str = "",
        *,
        grace_s: int | None = None,
        uid: str = "",
    ) -> bool:
        """False when it was not there. ``uid``: only that very one, not its successor."""
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        body["propagationPolicy"] = "Background"
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        if uid:
            body["preconditions"] = {"uid": uid}
        path = path_of(api_version, plural, name, namespace)
        answer = self.request("DELETE", path, None, body)
        if answer.status == 404 or (uid and answer.status == 409):  # noqa: PLR2004
            return False
        raise_for(answer)
        return True

    def post(self, path: str, body: Mapping[str, Any]) -> Object:
        """For what is asked, not made (tokens, reviews)."""
        return _object(raise_for(self.request("POST", path, None, body)))

    def read(self, path: str, params: Mapping[str, str] | None = None) -> Answer:
        """A GET as it is, for logs and health; the caller judges the status."""
        return self.request("GET", path, params)

    def read_once(self, path: str, params: Mapping[str, str], *, wait_s: float = 4.0) -> Answer:
        """A GET that is not worth waiting for or repeating."""
        answer, trouble = self._once("GET", path, params, None, "", wait_s)
        if answer is None:
            raise Unreachable(f"The cluster does not answer ({trouble}).")
        return answer

    # --- the wire -----------------------------------------------------------------------------
    def request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
    ) -> Answer:
        """Send until there is an answer worth having; Unreachable when there is none."""
        if method != "GET":
            self.writes = next(self._writes) + 1
        until = time.monotonic() + self.patience.total
        begun, pause = time.monotonic(), self.patience.pause
        attempts = 1 if self.is_silent else self.patience.attempts
        for attempt in range(1, attempts + 1):
            answer, trouble = self._once(method, path, params, body, content_type)
            if answer is not None and not self._is_worth_repeating(answer):
                return answer
            asked = "" if answer is None else answer.header("retry-after")
            wait = float(asked) if asked.isdigit() else 0.0
            wait = wait or pause * random.uniform(0.5, 1.5)  # noqa: S311
            over = time.monotonic() + wait > until or wait > self.patience.wait_max
            if attempt == attempts or over:
                break
            time.sleep(wait)
            pause *= 2
        self._lost(begun)
        if answer is not None:
            raise_for(answer)
        raise Unreachable(f"The cluster does not answer ({trouble}).")

    def _once(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        content_type: str,
        wait_s: float = 0.0,
    ) -> tuple[Answer | None, str]:
        patience = self.patience.connect, wait_s or self.patience.read
        asked = self._connection.asked(method, path, params, body, content_type, patience)
        try:
            with asked as response:
                answer = Answer(method, response.status, response.data, response.headers)
        except NoAnswer as error:
            return None, str(error)
        if answer.status not in _AGAIN:
            self._heard()
        return answer, ""

    def _heard(self) -> None:
        self.answered_at = time.monotonic()
        if self.is_silent:
            self.is_silent, self.back_at = False, self.answered_at

    def _lost(self, begun: float) -> None:
        """Nothing good came to what was asked since ``begun``; others may have been answered."""
        if self.answered_at < begun:  # else it says nothing: it must not end a silence either
            self.is_silent = True

    def _is_worth_repeating(self, answer: Answer) -> bool:
        if answer.status == 401:  # noqa: PLR2004
            return self._connection.refused()
        return answer.status in _AGAIN

    @contextmanager
    def stream(
        self, path: str, params: Mapping[str, str], *, silence_s: float
    ) -> Iterator[BaseHTTPResponse]:
        """One long answer. Silence of ``silence_s`` ends it as a dead one."""
        begun = time.monotonic()
        patience = self.patience.connect, silence_s
        try:
            with self._connection.asked("GET", path, params, None, "", patience) as response:
                if response.status not in _AGAIN:
                    self._heard()
                yield response
        except NoAnswer as error:
            self._lost(begun)
            raise Unreachable(f"The cluster does not answer ({error}).") from error


def plural_of(kind: str) -> str:
    return _PLURALS.get(kind) or f"{kind.lower()}s"


def path_of(api_version: str, plural: str, name: str = "", namespace: str = "") -> str:
    root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
    where = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{where}/{plural}" + (f"/{quote(name, safe='')}" if name else "")


def _page(body: bytes, plural: str) -> Object:
    try:
        found = answers.page_of(body, plural)
    except (msgspec.DecodeError, RecursionError) as error:
        found = error
    if isinstance(found, dict):
        return found
    # an empty list would say that all is gone
    raise Unreachable(f"The cluster's list of {plural} can't be read.")


def _object(answer: Answer) -> Object:
    found = answer.json()
    return found if isinstance(found, dict) else {}
