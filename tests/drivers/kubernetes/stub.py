"""A small API server in a thread, with faults on demand: what the real one can't be made to do.

It keeps objects, versions them, serves lists and watches with selectors, applies, merges and
deletes. ``fault`` sees each request first and may answer, break or delay it.
"""

import datetime as dt
import ipaddress
import itertools
import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runtime.drivers.kubernetes import access
from runtime.drivers.kubernetes.access import KubeAccess
from runtime.drivers.kubernetes.client import KubeClient, Patience
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import NotYet

# Asks again at once, and bears with a machine that is busy: no test waits for these limits.
QUICK = Patience(connect=20.0, read=20.0, total=60.0, pause=0.01)
ALLOW = access.check_for(loopback=True)


def remove(driver: KubernetesDriver, uid: str) -> None:
    """Ask until it is gone, as the engine does."""
    for _ in range(5):
        try:
            return driver.remove(uid)
        except NotYet:
            continue
    raise AssertionError("it is never gone")


def certificate(folder: Path) -> tuple[str, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stub")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2046, 1, 1, tzinfo=dt.UTC))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    path = folder / "stub.pem"
    path.write_bytes(
        pem
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pem.decode(), path


class Stub:
    """``seen`` holds (method, path, query) of each request."""

    def __init__(self, folder: Path) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}  # (collection, ns/name) → object
        self.log: list[tuple[int, str, str, dict[str, Any]]] = []  # version, word, collection, obj
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.fault: Callable[[Any, str, str, dict[str, str]], bool] = lambda *_: False
        self.changed = threading.Condition()
        self.oldest = 0  # a watch from before it is told 410
        self.frozen = False  # watches say nothing more, and do not end
        self.closing = False
        self.token = "good"
        self._versions = itertools.count(1)
        self.ca, pem = certificate(folder)
        self._pem = pem
        self.port = 0
        self.start()

    def start(self) -> None:
        self.closing = False
        self._server = _Server(("127.0.0.1", self.port), _handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._pem)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """All connections end, new ones are refused."""
        self.closing = True
        with self.changed:
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._server.cut()

    def access(self, **more: Any) -> KubeAccess:
        given = {"server": f"https://127.0.0.1:{self.port}", "ca_pem": self.ca, "token": "good"}
        return KubeAccess(**{**given, **more})

    def client(self, patience: Patience = QUICK) -> KubeClient:
        return KubeClient(self.access(), check=ALLOW, patience=patience)

    def driver(self, **options: Any) -> KubernetesDriver:
        made = KubernetesDriver(
            self.access(),
            KubernetesOptions(**{"pod_cidrs": ("10.0.0.0/8", "127.0.0.0/8"), **options}),
            "stub",
            lambda _uid: {"namespace": "ns"},
            check=ALLOW,
        )
        made.client.patience = QUICK
        return made

    def count(self, method: str, **query: str) -> int:
        return sum(
            m == method and all(q.get(k) == v for k, v in query.items()) for m, _p, q in self.seen
        )

    def lists(self) -> int:
        return sum(m == "GET" and "limit" in q for m, _p, q in self.seen)

    # --- objects ------------------------------------------------------------------------------
    def put(self, collection: str, obj: dict[str, Any]) -> dict[str, Any]:
        with self.changed:
            meta = obj["metadata"]
            key = (collection, f"{meta.get('namespace', '')}/{meta['name']}")
            old = self.objects.get(key)
            version = next(self._versions)
            meta["resourceVersion"] = str(version)
            meta.setdefault("uid", (old or {}).get("metadata", {}).get("uid") or f"u{version}")
            meta["generation"] = (old or {}).get("metadata", {}).get("generation", 0) + 1
            self.objects[key] = obj
            self.log.append((version, "MODIFIED" if old else "ADDED", collection, obj))
            self.changed.notify_all()
            return obj

    def drop(self, collection: str, namespace: str, name: str) -> bool:
        with self.changed:
            obj = self.objects.pop((collection, f"{namespace}/{name}"), None)
            if obj is None:
                return False
            version = next(self._versions)
            gone = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}
            self.log.append((version, "DELETED", collection, gone))
            self.changed.notify_all()
            return True

    def version(self) -> int:
        return self.log[-1][0] if self.log else 0


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)  # here, not in its thread: one that has not begun is cut as well
        super().process_request(request, client_address)

    def finish_request(self, request: Any, client_address: Any) -> None:
        try:
            request.do_handshake()
            super().finish_request(request, client_address)
        except (OSError, ValueError):
            pass
        finally:
            self._open.discard(request)

    def cut(self) -> None:
        for request in list(self._open):
            try:
                request.shutdown(2)
            except OSError:
                continue


def _handler(stub: Stub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two writes: 40 ms wait between them

        def _begin(self) -> tuple[str, str, str, dict[str, str]]:
            url = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(url.query))
            stub.seen.append((self.command, url.path, query))
            namespace, name = "", ""
            rest = url.path.split("/namespaces/", 1)
            if len(rest) == 2 and "/" in rest[1]:
                head, (namespace, *tail) = rest[0], rest[1].split("/")
                collection, name = f"{head}/{tail[0]}", tail[1] if len(tail) > 1 else ""
            else:
                parts = url.path.split("/")
                depth = 4 if parts[1] == "api" else 5
                collection, name = "/".join(parts[:depth]), "/".join(parts[depth:])
            return collection, namespace, name, query

        def body(self) -> dict[str, Any]:
            size = int(self.headers.get("Content-Length", 0))
            return json.loads(self.rfile.read(size)) if size else {}

        def say(self, status: int, found: Any, **headers: str) -> None:
            data = json.dumps(found).encode()
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def refuse(self, status: int, message: str = "no", **headers: str) -> None:
            self.say(status, {"kind": "Status", "code": status, "message": message}, **headers)

        def handle_one(self) -> None:
            collection, namespace, name, query = self._begin()
            self.given = self.body() if self.command != "GET" else {}
            if stub.fault(self, self.command, self.path, query):
                return
            if self.headers.get("Authorization") != f"Bearer {stub.token}":
                self.refuse(401)
                return
            if self.command == "POST":  # what is asked and not made: the test answers
                self.refuse(404)
                return
            {"GET": self.get, "PATCH": self.patch, "DELETE": self.delete}[self.command](
                collection, namespace, name, query
            )

        do_GET = do_PATCH = do_DELETE = do_POST = handle_one  # noqa: N815

        def get(self, collection: str, namespace: str, name: str, query: dict[str, str]) -> None:
            if query.get("watch"):
                self.watch(collection, query)
            elif name or collection in {"/version", "/readyz"}:
                found = stub.objects.get((collection, f"{namespace}/{name}"))
                self.say(200, found) if found else self.refuse(404)
            elif collection.startswith("/apis/") and collection.count("/") == 3:
                served = {c.rpartition("/") for c, _key in list(stub.objects)}
                names = [plural for where, _slash, plural in served if where == collection]
                self.say(200, {"resources": [{"name": one} for one in sorted(names)]})
            else:
                rows = [
                    o
                    for (c, k), o in list(stub.objects.items())
                    if c == collection
                    and (not namespace or k.startswith(f"{namespace}/"))
                    and matches(o, query)
                ]
                meta = {"resourceVersion": str(stub.version())}
                self.say(200, {"kind": "List", "metadata": meta, "items": rows})

        def patch(self, collection: str, namespace: str, name: str, query: dict[str, str]) -> None:
            known = stub.objects.get((collection, f"{namespace}/{name}"))
            if query.get("dryRun"):
                self.say(200, self.given)
            elif "apply" in self.headers["Content-Type"]:
                made = {**self.given, "status": (known or {}).get("status", {})}
                self.say(200, stub.put(collection, made))
            elif known is None:
                self.refuse(404)
            elif (self.given.get("metadata") or {}).get("resourceVersion") not in {
                None,
                known["metadata"]["resourceVersion"],
            }:
                self.refuse(409, "the object has been modified")
            else:
                self.say(200, stub.put(collection, _merge(known, self.given)))

        def delete(
            self, collection: str, namespace: str, name: str, _query: dict[str, str]
        ) -> None:
            self.say(200, {}) if stub.drop(collection, namespace, name) else self.refuse(404)

        def watch(self, collection: str, query: dict[str, str]) -> None:
            at = int(query.get("resourceVersion") or 0)
            if at < stub.oldest:
                self.refuse(410, "too old resource version")
                return
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            until = time.monotonic() + float(query["timeoutSeconds"])
            while time.monotonic() < until and not stub.closing:
                with stub.changed:
                    rows = [r for r in stub.log if r[0] > at]
                    if not rows or stub.frozen:
                        stub.changed.wait(0.05)
                        continue
                for version, word, where, obj in rows:
                    at = version
                    if where == collection and matches(obj, query):
                        self.event(word, obj)
            if stub.frozen:
                while not stub.closing:
                    time.sleep(0.05)
            self.event("BOOKMARK", {"metadata": {"resourceVersion": str(at)}})
            self.wfile.write(b"0\r\n\r\n")

        def event(self, word: str, obj: dict[str, Any]) -> None:
            line = json.dumps({"type": word, "object": obj}).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))

        def log_message(self, *_args: Any) -> None: ...

    return Handler


def matches(obj: dict[str, Any], query: dict[str, str]) -> bool:
    labels = obj["metadata"].get("labels") or {}
    for term in filter(None, query.get("labelSelector", "").split(",")):
        key, has_value, value = term.partition("=")
        if not has_value and key not in labels:
            return False
        if has_value and (labels.get(key.rstrip("!")) == value) == key.endswith("!"):
            return False
    for term in query.get("fieldSelector", "").split(","):
        if term.startswith("involvedObject.name="):
            wanted = term.split("=", 1)[1]
            if obj.get("involvedObject", {}).get("name") != wanted:
                return False
    return True


def _merge(known: Any, change: Any) -> Any:
    if not isinstance(change, dict):
        return change
    made = dict(known) if isinstance(known, dict) else {}
    for key, value in change.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = _merge(made.get(key), value)
    return made
