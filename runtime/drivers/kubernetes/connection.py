"""The official client's connection to one API server: as one of its users, nothing ambient.

No default kubeconfig, proxy or authority of the machine counts. Redirects are not followed,
sockets lead to checked addresses only, and a body comes as it is: ``answers.py`` reads it (see
docs/adr/0011-the-official-kubernetes-client.md).
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from kubernetes.client import ApiClient, ApiException, Configuration
from urllib3.connection import HTTPSConnection
from urllib3.connectionpool import HTTPSConnectionPool
from urllib3.exceptions import HTTPError, NewConnectionError
from urllib3.util.connection import create_connection

from runtime.drivers.kubernetes.access import Bearer, Check, KubeAccess
from runtime.drivers.kubernetes.answers import NoAnswer

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

_KEEPALIVE = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]
_DOTS = re.compile(r"(?<=/)\.{1,2}(?=/|$)")
_BEARER = "BearerToken"  # the one way to authenticate that the API describes


class Connection:
    """Thread-safe. Keeps up to ``connections`` open."""

    def __init__(self, access: KubeAccess, check: Check, connections: int) -> None:
        bearer = Bearer(access)
        self._settings = Configuration(
            host=access.server,
            api_key_prefix={_BEARER: "Bearer"},
            retries=False,  # nor redirects
            tls_server_name=access.tls_server_name or None,
            connection_pool_maxsize=connections,
            socket_options=_KEEPALIVE,
            proxy="",
            no_proxy="",
        )

        def renew(settings: Configuration) -> None:
            settings.api_key[_BEARER] = bearer.token()

        self._settings.refresh_api_key_hook = renew  # type: ignore[assignment]
        self.refused = bearer.refused
        self._api = ApiClient(self._settings)
        pools = self._api.rest_client.pool_manager
        # Keys that lie in memory only, read once and not for each socket.
        pools.connection_pool_kw["ssl_context"] = access.tls()
        pools.pool_classes_by_scheme = {"https": _pool_class(check)}

    def close(self) -> None:
        self._api.close()

    @contextmanager
    def asked(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        content_type: str,
        patience: tuple[float, float],
    ) -> Iterator[BaseHTTPResponse]:
        """Yield the answer, whatever its status is; NoAnswer when it is lost, now or on the way.

        ``patience``: seconds to connect, and of silence.
        """
        asked = {name: value for name, value in (params or {}).items() if value}
        # Names of dots only are names: urllib3 would go up by them, to what the name is part of.
        path = _DOTS.sub(lambda found: found[0].replace(".", "%2E"), path)
        url = f"{self._settings.host}{path}" + (f"?{urlencode(asked)}" if asked else "")
        headers = {"Accept": "application/json", "User-Agent": "berth"}
        if token := self._settings.get_api_key_with_prefix(_BEARER):
            headers["Authorization"] = token
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            response = self._api.call_api(
                method, url, headers, body, _request_timeout=patience
            ).response
            try:
                yield response
            finally:
                response.close()  # unless all was read: then others have the connection by now
        except (HTTPError, ApiException) as error:
            cause = error.__cause__ or error.__context__ or error
            raise NoAnswer(str(cause)[:200] or type(cause).__name__) from error


def _pool_class(check: Check) -> type[HTTPSConnectionPool]:
    class Checked(HTTPSConnection):
        """Connects to addresses that passed the check; TLS still proves the name."""

        def _new_conn(self) -> socket.socket:
            trouble = OSError(f"{self.host} has no address")
            try:
                found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                found = []
            for address in dict.fromkeys(str(item[4][0]) for item in found):
                check(address)
                try:
                    return create_connection(
                        (address, self.port), self.timeout, socket_options=self.socket_options
                    )
                except OSError as error:  # another address of the same name may answer
                    trouble = error
            raise NewConnectionError(self, str(trouble)) from trouble

    class Pool(HTTPSConnectionPool):
        ConnectionCls = Checked

    return Pool
