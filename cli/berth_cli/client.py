"""HTTP to one portal: authentication, retries that are safe, errors as exit codes."""

from __future__ import annotations

import json
import os
import ssl
import time
import uuid
from functools import cache
from typing import IO, TYPE_CHECKING, Any

import httpx

from berth_cli import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SENT_AGAIN_S = (1.0, 4.0)
_PART = 256 * 1024

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_SIGN_IN = 3
EXIT_NOT_FOUND = 4
EXIT_CONFLICT = 5
EXIT_TIMEOUT = 6
EXIT_UNREACHABLE = 7

_BY_STATUS = {
    400: EXIT_USAGE,
    401: EXIT_SIGN_IN,
    403: EXIT_NOT_FOUND,
    404: EXIT_NOT_FOUND,
    409: EXIT_CONFLICT,
    412: EXIT_CONFLICT,
    413: EXIT_USAGE,
    428: EXIT_CONFLICT,
    429: EXIT_CONFLICT,
    502: EXIT_UNREACHABLE,
    503: EXIT_UNREACHABLE,
    504: EXIT_UNREACHABLE,
    507: EXIT_CONFLICT,
}


def exit_of(status: int, otherwise: int = EXIT_ERROR) -> int:
    """Return what a command ends with that got this status of HTTP."""
    return _BY_STATUS.get(status, otherwise)


class ApiError(Exception):
    """The portal said no; ``exit_code`` is what the process ends with."""

    def __init__(
        self,
        message: str,
        exit_code: int = EXIT_ERROR,
        *,
        status: int = 0,
        problem: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.status = status
        self.problem = problem or {}


class Client:
    """A portal's API. Paths are relative to ``/api/v1/``."""

    def __init__(self, server: str, token: str = "", *, timeout: float = 30.0) -> None:
        headers = {"User-Agent": f"berth-cli/{__version__}", "Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.server = server
        try:
            self._http = opened(base_url=f"{server}/api/v1/", headers=headers, timeout=timeout)
        except httpx.InvalidURL as error:
            raise ApiError(f"{server} is no address of a portal: {error}", EXIT_USAGE) from error
        except UnicodeEncodeError as error:
            raise ApiError("The token holds signs that no token has.", EXIT_SIGN_IN) from error

    def be_quick(self) -> None:
        """Give up after two seconds: whoever completes a name goes on typing."""
        self._http.timeout = httpx.Timeout(2.0)

    def get(self, path: str, **params: Any) -> Any:
        return self.call("GET", path, params={k: v for k, v in params.items() if v is not None})

    def post(self, path: str, body: Any = None, **params: Any) -> Any:
        return self.call("POST", path, json_body=body if body is not None else {}, params=params)

    def call(
        self,
        method: str,
        path: str,
        *,
        json_body: Any = None,
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Do one call; a lost answer to a POST is asked for again under the same key."""
        sent = dict(headers or {})
        if method == "POST":
            sent.setdefault("Idempotency-Key", str(uuid.uuid4()))
        for attempt in (1, 2):
            try:
                response = self._http.request(
                    method, path, json=json_body, params=params or None, headers=sent
                )
                break
            except httpx.ConnectError as error:
                raise self._unreachable(error) from error
            except httpx.TransportError as error:
                if attempt == 2:  # noqa: PLR2004 - the second try is the last
                    raise self._unreachable(error) from error
        return self._answer(response)

    def send(self, path: str, content: IO[bytes], length: int, told: Callable[[int], None]) -> Any:
        """POST a file as it is, from its beginning once more where the connection breaks.

        What is the same is kept once. ``told`` hears how many bytes went.
        """
        headers = {"Content-Type": "application/gzip", "Content-Length": str(length)}
        timeout = httpx.Timeout(60.0, read=600.0)
        for pause in (*_SENT_AGAIN_S, None):
            try:
                parts = _parts(content, told)
                response = self._http.post(path, content=parts, headers=headers, timeout=timeout)
                return self._answer(response)
            except httpx.TransportError as error:
                if pause is None:
                    said = f"The connection to {self.server} broke while it was sent ({error})."
                    again = "Nothing of it is kept: send it again."
                    raise ApiError(f"{said} {again}", EXIT_UNREACHABLE) from error
                if isinstance(error, httpx.ConnectError) and not content.tell():
                    raise self._unreachable(error) from error
                time.sleep(pause)
        raise AssertionError

    def pages(self, path: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Yield every row of a cursor-paginated list."""
        answer = self.get(path, **params)
        while True:
            if isinstance(answer, list):
                yield from answer
                return
            yield from answer["results"]
            following = answer.get("next")
            if not following:
                return
            answer = self.get(path, **dict(httpx.URL(following).params))

    def stream(self, path: str, **params: Any) -> Iterator[tuple[str, str]]:
        """Yield (event, data) of a server-sent event stream until the server ends it."""
        try:
            with self._http.stream(
                "GET",
                path,
                params=params,
                headers={"Accept": "text/event-stream"},
                timeout=httpx.Timeout(30.0, read=60.0),
            ) as response:
                if response.status_code >= httpx.codes.BAD_REQUEST:
                    response.read()
                    self._answer(response)
                yield from _events(response.iter_lines())
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _answer(self, response: httpx.Response) -> Any:
        if response.is_success:
            return self._said(response) if response.content else None
        if response.is_redirect:
            raise ApiError(
                f"{self.server} redirects to {response.headers.get('location')}: "
                "sign in with that address instead."
            )
        try:
            problem = response.json()
        except ValueError:
            problem = {}
        problem = problem if isinstance(problem, dict) else {}
        status = response.status_code
        message = problem.get("detail") or f"{self.server} answered {status}."
        if status == httpx.codes.UNAUTHORIZED:
            message = f"You are not signed in to {self.server}. Run: berth login {self.server}"
        for name, errors in (problem.get("fields") or {}).items():
            if (said := _flat(errors)) not in message:  # a refusal of few fields says them already
                message += f"\n  {name}: {said}"
        raise ApiError(message, exit_of(status), status=status, problem=problem)

    def _said(self, response: httpx.Response) -> Any:
        if response.headers.get("content-type", "").startswith("text/csv"):
            return response.text
        try:
            return response.json()
        except ValueError as error:
            said = f"{self.server} does not answer as Berth does. Is that its address?"
            raise ApiError(said) from error

    def _unreachable(self, error: Exception) -> ApiError:
        return ApiError(f"{self.server} can't be reached: {error}", EXIT_UNREACHABLE)


def _parts(content: IO[bytes], told: Callable[[int], None]) -> Iterator[bytes]:
    content.seek(0)
    while part := content.read(_PART):
        yield part
        told(content.tell())


def opened(**options: Any) -> httpx.Client:
    """Return a client that goes where it is told and nowhere else.

    All of one command share the authorities that they believe: to read them takes up to a tenth of
    a second of a core, and a portal that speaks plain HTTP shows no certificate.
    """
    named = (os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", ""))
    plain = str(options.get("base_url", "")).startswith("http://")
    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else _authorities(named)
    return httpx.Client(verify=verify, follow_redirects=False, **options)


@cache
def _authorities(_named: tuple[str, str]) -> ssl.SSLContext:
    """What the environment names (``_named``), else the public ones."""
    return httpx.create_ssl_context()


def _flat(errors: Any) -> str:
    if isinstance(errors, list):
        return " ".join(_flat(e) for e in errors)
    return errors if isinstance(errors, str) else json.dumps(errors, ensure_ascii=False)


def _events(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    event: str = "message"
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                yield event, "\n".join(data)
            event, data = "message", []
        elif line.startswith("event:"):
            event = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
