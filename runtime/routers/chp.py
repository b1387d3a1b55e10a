"""configurable-http-proxy (our entry, proxy/berth-proxy.mjs) through its REST API."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx
from django.conf import settings

from runtime.protocol import Unreachable
from runtime.reasons import Reason
from runtime.routers.base import RouteEntry, Router

_REACH_S = 6.0  # the proxy itself gives up after three
_TIMEOUT = httpx.Timeout(3.0, connect=1.0)


def path_of(key: str) -> str:
    """Return the API path of a route. Empty keys are refused.

    DELETE without a path hangs the proxy, and with a bare slash it removes the default route.
    """
    inner = key.strip("/")
    if not inner:
        raise ValueError(f"{key!r} is not a route.")
    return "/api/routes/" + quote(inner, safe="/~@:.-_")


def _same_key(key: str) -> str:
    return "/" + key.strip("/")


class ChpProxy:
    """One proxy process. Thread-safe; keeps its connections."""

    def __init__(self, url: str, token: str) -> None:
        self._client = httpx.Client(
            base_url=url,
            timeout=_TIMEOUT,
            headers={"Authorization": f"token {token}"},
            trust_env=False,
            limits=httpx.Limits(max_keepalive_connections=8),
        )

    def put(self, entry: RouteEntry) -> None:
        body = {"target": entry.target, "uid": entry.uid}
        self._call("POST", path_of(entry.key), json=body)

    def drop(self, key: str) -> None:
        self._call("DELETE", path_of(key), missing_ok=True)

    def cut(self, key: str, *, visitor: str | None = None) -> int:
        body = {"key": _same_key(key), **({"visitor": visitor} if visitor else {})}
        return int(self._call("POST", "/api/berth/cut", json=body).json().get("cut", 0))

    def list(self) -> Mapping[str, RouteEntry]:
        routes = self._call("GET", "/api/routes").json()
        return {
            _same_key(key): RouteEntry(
                key=_same_key(key), target=str(data.get("target", "")), uid=str(data.get("uid", ""))
            )
            for key, data in routes.items()
            if key.strip("/")
        }

    def epoch(self) -> str:
        return str(self._call("GET", "/api/berth/epoch").json().get("epoch", ""))

    def reach(self, target: str) -> str | None:
        asked = self._call("POST", "/api/berth/reach", json={"target": target}, timeout=_REACH_S)
        return str(asked.json().get("why", ""))

    def close(self) -> None:
        self._client.close()

    def _call(
        self, method: str, path: str, *, missing_ok: bool = False, **more: Any
    ) -> httpx.Response:
        try:
            answer = self._client.request(method, path, **more)
        except httpx.HTTPError as error:
            message = f"The notebook proxy does not answer ({type(error).__name__})."
            raise Unreachable(message, reason=Reason.PROXY_UNREACHABLE) from error
        if answer.is_success or (missing_ok and answer.status_code == httpx.codes.NOT_FOUND):
            return answer
        message = f"The notebook proxy answered {answer.status_code} to {method} {path}."
        raise Unreachable(message, reason=Reason.PROXY_UNREACHABLE)


class ChpRouter:
    """All proxies together: a route is there only when every one has it.

    One of them may be a Gateway (``clusters.registry``).
    """

    def __init__(self, members: Sequence[Router]) -> None:
        self.members = members

    @classmethod
    def from_settings(cls) -> "ChpRouter":
        urls = settings.BERTH_PROXY_API_URLS
        return cls([ChpProxy(url, settings.BERTH_PROXY_TOKEN) for url in urls])

    def put(self, entry: RouteEntry) -> None:
        for member in self.members:
            member.put(entry)

    def drop(self, key: str) -> None:
        """Drop from every proxy, also when one of them does not answer."""
        failed: Unreachable | None = None
        for member in self.members:
            try:
                member.drop(key)
            except Unreachable as error:
                failed = error
        if failed is not None:
            raise failed

    def cut(self, key: str, *, visitor: str | None = None) -> int:
        return sum(member.cut(key, visitor=visitor) for member in self.members)

    def list(self) -> Mapping[str, RouteEntry]:
        tables = [member.list() for member in self.members]
        first, rest = tables[0], tables[1:]
        return {k: e for k, e in first.items() if all(t.get(k) == e for t in rest)}

    def epoch(self) -> str:
        return " ".join(member.epoch() for member in self.members)

    def reach(self, target: str) -> str | None:
        """Return why one of them does not reach it, '' when all that can be asked do."""
        told = [why for member in self.members if (why := member.reach(target)) is not None]
        return next(filter(None, told), "") if told else None
