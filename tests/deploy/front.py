"""A browser behind what ends TLS for it: through a Gateway, or by the Services as an ingress does."""

from __future__ import annotations

import secrets
import socket
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.deploy.chart import HOST
from tests.hubapi.live.fleet import Browser, execute, result_of


class Front(httpx.HTTPTransport):
    """Whatever the host, it is at one loopback port, which hears that TLS was ended here."""

    def __init__(self, port: int) -> None:
        super().__init__(trust_env=False)
        self.port = port

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return super().handle_request(
            httpx.Request(
                request.method,
                request.url.copy_with(scheme="http", host="127.0.0.1", port=self.port),
                headers={**request.headers, "X-Forwarded-Proto": "https"},
                stream=request.stream,
                extensions=request.extensions,
            )
        )


class Visitor(Browser):
    """Cookies marked Secure go along, because what he sees is https."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port
        # a small machine hashes a password slowly
        self.http = httpx.Client(transport=Front(port), timeout=90)

    def sign_in(self, password: str) -> httpx.Response:
        page = f"https://{HOST}/accounts/login/"
        self.open(page)
        form = {
            "login": "admin",
            "password": password,
            "csrfmiddlewaretoken": self.http.cookies["__Host-berth_csrf"],
        }
        return self.http.post(page, data=form, headers={"Referer": page})

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"Referer": f"https://{HOST}/"}
        if token := self.http.cookies.get("__Host-berth_csrf"):
            headers["X-CSRFToken"] = token
        return self.http.request(method, f"https://{HOST}{path}", headers=headers, **more)

    def kernel_socket(self, url: str, kernel: str, **more: Any) -> ClientConnection:
        host = httpx.URL(url).host
        return connect(
            f"ws://{host}/api/kernels/{kernel}/channels?session_id={secrets.token_hex(8)}",
            sock=socket.create_connection(("127.0.0.1", self.port), timeout=60),
            origin=f"https://{host}",
            additional_headers={"Cookie": self.cookies(url), "X-Forwarded-Proto": "https"},
            open_timeout=60,
            **more,
        )

    def run(self, url: str, code: str) -> str:
        """Run code in a new kernel of an opened JupyterLab and return its result."""
        made = self.script("POST", f"{url}api/kernels", json={"name": "python3"})
        assert made.status_code == httpx.codes.CREATED, made.text
        with self.kernel_socket(url, made.json()["id"]) as ws:
            execute(ws, code)
            return result_of(ws)


class Ingress(httpx.HTTPTransport):
    """Leads to the Services of a release as the chart's Ingress does: by host and by path."""

    def __init__(self, portal: str, gate: str, proxy: str) -> None:
        super().__init__(trust_env=False)
        self.portal, self.gate, self.proxy = portal, gate, proxy

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        where = self.gate if request.url.path.startswith("/gate/") else self.portal
        host, _, port = (where if request.url.host == HOST else self.proxy).rpartition(":")
        return super().handle_request(
            httpx.Request(
                request.method,
                request.url.copy_with(scheme="http", host=host, port=int(port)),
                headers={
                    **request.headers,
                    "X-Forwarded-Proto": "https",
                    "X-Forwarded-For": "192.0.2.8",
                },
                stream=request.stream,
                extensions=request.extensions,
            )
        )


class Guest(Visitor):
    """The same, where no Gateway stands before the release."""

    def __init__(self, ingress: Ingress) -> None:
        Browser.__init__(self)
        self.ingress = ingress
        self.http = httpx.Client(transport=ingress, timeout=90)

    def terminal(self, workspace: str) -> ClientConnection:
        """A terminal of a page of the portal."""
        asked = self.http.get(
            f"https://{HOST}/tickets/terminal/{workspace}", headers={"Accept": "application/json"}
        )
        query = f"cols=100&rows=30&ticket={asked.json()['ticket']}"
        return connect(
            f"ws://{self.ingress.gate}/gate/terminal/{workspace}?{query}",
            origin=Origin(f"https://{HOST}"),
            proxy=None,
            open_timeout=60,
            close_timeout=2,
        )
