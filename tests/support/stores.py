"""Real object stores on loopback: two implementations of S3 and one of Google Cloud Storage.

    with VersityS3() as store:            # or RcloneS3(), GoogleStore()
        store.make_bucket("data")
        plan["store"] = store.place("data", prefix="raw/")
        plan["outbound"] = store.outbound()

Both S3 servers check real signatures, so a wrong key, a revoked one and a changed request fail as
they do at a provider.  Both keep the checksums that a client sends; versitygw also computes them for
parts, and has users that can be removed while it runs.  gofakes3, the usual third, is where rclone's server comes
from, so it would tell nothing new.  fake-gcs-server asks for no token: a front before it does, with
the signature of each assertion checked against the service account's key.
"""

from __future__ import annotations

import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.ports import free_port
from tests.support.store_certificates import Authority
from tests.support.store_clients import Clients
from tests.support.store_front import Front
from tests.support.store_google import TOKEN_PATH, ServiceAccount, Tokens
from tests.support.store_programs import Process, built, stores_bin

REGION = "us-east-1"
LOOPBACK, LOOPBACKS = "127.0.0.1", "127.0.0.0/8"
# versitygw writes "… operation key address status code …", and a key may hold blanks.
SERVED = re.compile(r" s3_(?P<operation>\w+) (?P<key>.*) /\S.* (?P<status>\d{3}) \S+ \d+ \d+ \d+ ")


@dataclass(frozen=True)
class Keys:
    access: str
    secret: str

    @classmethod
    def fresh(cls) -> Keys:
        return cls(f"AK{secrets.token_hex(8).upper()}", secrets.token_hex(20))


class Store:
    """A running server; what it keeps goes with it. ``folder`` says where, for large ones.

    ``host`` is an address of this machine: pods do not reach its loopback.
    """

    kind = ""

    def __init__(
        self, *, folder: Path | None = None, tls: bool = False, host: str = LOOPBACK
    ) -> None:
        if tls and host != LOOPBACK:
            raise ValueError("the test's certificates are for loopback only")
        self.host = host
        self.folder = Path(tempfile.mkdtemp(prefix="berth-store-", dir=folder))
        self.data = self.folder / "data"
        self.data.mkdir()
        self.port = free_port(host)
        self.authority = Authority(self.folder) if tls else None
        self._processes: list[Process] = []
        self.clients = Clients(self.folder)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.clients.end()
        for process in reversed(self._processes):
            process.end()
        self._processes.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"{'https' if self.authority else 'http'}://{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        return self._processes[-1].pid

    def make_bucket(self, name: str) -> str:
        raise NotImplementedError

    def place(self, bucket: str, prefix: str = "", **others: Any) -> dict[str, Any]:
        """The "store" part of a plan."""
        raise NotImplementedError

    def outbound(self, at: str = "") -> dict[str, Any]:
        """The "outbound" part of a plan, which lets a copy reach this machine."""
        address = (at or self.url).partition("://")[2]
        port = int(address.rpartition(":")[2])
        return {
            "allow": [f"{LOOPBACKS if self.host == LOOPBACK else self.host}:{port}"],
            "ports": [443, 80, port],
            "ca_file": str(self.authority.certificate) if self.authority else "",
            "insecure_hosts": [] if self.authority else [address],
            "gcs_endpoint": "",
            "gcs_token_uri": "",
        }

    def front(self, **options: Any) -> Front:
        """Something before this server that counts and spoils (``store_front``)."""
        if self.authority:
            raise RuntimeError("a front speaks plain HTTP to its server: make that one without TLS")
        return Front(self.port, **options)


class S3Store(Store):
    kind = "s3-compatible"

    def __init__(
        self,
        *,
        keys: Keys | None = None,
        folder: Path | None = None,
        tls: bool = False,
        host: str = LOOPBACK,
    ) -> None:
        super().__init__(folder=folder, tls=tls, host=host)
        self.keys = keys or Keys.fresh()

    def make_bucket(self, name: str) -> str:
        """By the server: it knows who owns it, and no listing of a moment ago hides it."""
        run_client(self, [{"do": "make-bucket", "bucket": name}])
        return name

    def place(self, bucket: str, prefix: str = "", **others: Any) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "bucket": bucket,
            "prefix": prefix,
            "objects": None,
            "endpoint": self.url,
            "region": REGION,
            "path_style": True,
            "anonymous": False,
            "access_key": self.keys.access,
            "secret_key": self.keys.secret,
            "session_token": "",
            "service_account": None,
            **others,
        }

    def environment(self) -> dict[str, str]:
        """For aws, s5cmd and boto3, as programs of their own."""
        return {
            "AWS_ACCESS_KEY_ID": self.keys.access,
            "AWS_SECRET_ACCESS_KEY": self.keys.secret,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": self.url,
            "S3_ENDPOINT_URL": self.url,
            "AWS_EC2_METADATA_DISABLED": "true",
            **({"AWS_CA_BUNDLE": str(self.authority.certificate)} if self.authority else {}),
        }


class RcloneS3(S3Store):
    """``rclone serve s3`` over a folder: buckets are folders in ``data``, objects files."""

    def __init__(self, *, anonymous: bool = False, **others: Any) -> None:
        super().__init__(**others)
        self.anonymous = anonymous

    def start(self) -> None:
        command: list[str | Path] = [stores_bin() / "rclone", "serve", "s3", self.data]
        command += ["--addr", f"{self.host}:{self.port}", "--config", self.folder / "rclone.conf"]
        command += ["--dir-cache-time", "1s"]
        if not self.anonymous:
            command += ["--auth-key", f"{self.keys.access},{self.keys.secret}"]
        if self.authority:
            command += ["--cert", self.authority.serving, "--key", self.authority.serving_key]
        self._processes.append(Process(command, self.folder, self.port, {}, self.host))

    def change_keys(self) -> Keys:
        """Other keys at the same address, by a restart: the old ones are unknown then."""
        self._processes.pop().end()
        self.keys = Keys.fresh()
        self.start()
        return self.keys


class VersityS3(S3Store):
    """versitygw over a folder; ``keys`` are its root's, more users come by ``user``."""

    def __init__(self, *, logged: bool = True, **others: Any) -> None:
        super().__init__(**others)
        self.logged = logged

    def start(self) -> None:
        (self.folder / "iam").mkdir(exist_ok=True)
        command: list[str | Path] = [built("versitygw"), "--port", f"{self.host}:{self.port}"]
        command += ["--region", REGION, "--keep-alive", "--quiet"]
        command += ["--access-log", self.folder / "access.log"] if self.logged else []
        command += ["--iam-dir", self.folder / "iam", "--iam-cache-disable"]
        if self.authority:
            command += ["--cert", self.authority.serving, "--key", self.authority.serving_key]
        env = {"ROOT_ACCESS_KEY": self.keys.access, "ROOT_SECRET_KEY": self.keys.secret}
        command += ["posix", self.data]
        self._processes.append(Process(command, self.folder, self.port, env, self.host))

    def user(self, role: str = "admin") -> Keys:
        """One more user; ``revoke`` ends its right between two requests."""
        keys = Keys.fresh()
        made = ["--access", keys.access, "--secret", keys.secret, "--role", role]
        self._admin("create-user", *made)
        return keys

    def revoke(self, keys: Keys) -> None:
        self._admin("delete-user", "--access", keys.access)

    def served(self) -> list[tuple[str, str, int]]:
        """What the server's own log says of each request: (operation, key, status)."""
        lines = (self.folder / "access.log").read_text().splitlines()
        return [
            (m["operation"], m["key"], int(m["status"]))
            for line in lines
            if (m := SERVED.search(line))
        ]

    def _admin(self, *words: str) -> None:
        command: list[str | Path] = [built("versitygw"), "admin", "--endpoint-url", self.url]
        command += ["--access", self.keys.access, "--secret", self.keys.secret]
        command += ["--allow-insecure"] if self.authority else []
        done = subprocess.run(
            [*command, "--region", REGION, *words], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{words[0]}: {done.stdout} {done.stderr}")


class GoogleStore(Store):
    """fake-gcs-server with a token endpoint before it; ``requests`` are counted there."""

    kind = "gcs"

    def __init__(
        self,
        *,
        folder: Path | None = None,
        anonymous: bool = False,
        on_disk: bool = False,
        source: Path | None = None,
    ) -> None:
        """``source`` holds folders, named as buckets, with what is there from the start."""
        super().__init__(folder=folder)
        self.anonymous, self.on_disk, self.source = anonymous, on_disk, source
        self.account = ServiceAccount()
        self.tokens = Tokens(self.account)
        self._front = Front(self.port, rules=[] if anonymous else [self.tokens.rule])

    def start(self) -> None:
        self._front.__enter__()
        command: list[str | Path] = [built("fake-gcs-server"), "-scheme", "http"]
        command += ["-host", "127.0.0.1", "-port", str(self.port), "-log-level", "error"]
        command += ["-external-url", self.url, "-public-host", self.url.partition("://")[2]]
        kept = ["filesystem", "-filesystem-root", str(self.data)] if self.on_disk else ["memory"]
        command += ["-backend", *kept]
        command += ["-data", self.source] if self.source else []
        self._processes.append(Process(command, self.folder, self.port, {}))

    def __exit__(self, *_: object) -> None:
        self.clients.end()
        if self._front.port:
            self._front.__exit__()
        super().__exit__()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._front.port}"

    @property
    def direct_url(self) -> str:
        """The server itself: no token is asked for, nothing is counted."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> Sequence[Any]:
        return self._front.requests

    @property
    def rules(self) -> list[Any]:
        return self._front.rules

    def revoke(self) -> None:
        """The account's key is gone: tokens stop working and none is given."""
        self.tokens.revoke()

    def make_bucket(self, name: str) -> str:
        run_client(self, [{"do": "make-bucket", "bucket": name}])
        return name

    def place(self, bucket: str, prefix: str = "", **others: Any) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "bucket": bucket,
            "prefix": prefix,
            "objects": None,
            "endpoint": "",
            "region": "",
            "path_style": False,
            "anonymous": self.anonymous,
            "access_key": "",
            "secret_key": "",
            "session_token": "",
            "service_account": None if self.anonymous else self.account.document(),
            **others,
        }

    def outbound(self, at: str = "") -> dict[str, Any]:
        return {
            **super().outbound(at),
            "gcs_endpoint": self.url,
            "gcs_token_uri": f"{self.url}{TOKEN_PATH}",
        }


def run_client(store: Store, orders: list[dict[str, Any]]) -> list[Any]:
    """boto3 or google-cloud-storage does ``orders`` (see store_client.py) and answers each."""
    about: dict[str, Any] = {"kind": store.kind, "url": store.url}
    if isinstance(store, S3Store):
        about |= {"access": store.keys.access, "secret": store.keys.secret, "region": REGION}
        about["ca"] = str(store.authority.certificate) if store.authority else ""
        about["ca_holds"] = store.authority.certificate.read_text() if store.authority else ""
    elif isinstance(store, GoogleStore):
        own = {**store.account.document(), "token_uri": f"{store.url}{TOKEN_PATH}"}
        about["account"] = None if store.anonymous else own
    return store.clients.of(about).orders(orders)
