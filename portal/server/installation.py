"""Whether secrets, database and data are of one installation.

What was an installation is never begun anew unasked: everybody's work would look like an orphan.
The database has a row that says which installation it is and proves the secrets, and a record
beside the data says the same: a file in ``BERTH_VAR``, in a cluster a key of the Secret. Where
these disagree, or one of them is gone, a start ends with a sentence and nothing was touched.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import ssl
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from common.ids import new_uid
from portal.server.paths import UNLIKE, Paths, Refusal, write_private

if TYPE_CHECKING:
    from collections.abc import Iterable


ANEW = "To go on with what is here: `berth anew` (in containers `berth-server migrate --anew`)."
NOTHING = "Nothing was changed."


class Record(Protocol):
    """Beside the data and the secrets; outlives the database."""

    where: str

    def read(self) -> str: ...

    def write(self, uid: str) -> None: ...


class FileRecord:
    def __init__(self, places: Paths) -> None:
        self._path = places.installation
        self.where = str(self._path)

    def read(self) -> str:
        try:
            return self._path.read_text().strip()
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            message = f"{self._path} can't be read ({error}). Restore it from a backup."
            raise Refusal(message, code=UNLIKE) from error

    def write(self, uid: str) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self._path, f"{uid}\n")


@dataclass(frozen=True)
class Found:
    """What was there before anything was written."""

    database: str  # its name
    recorded: str
    where: str  # the record
    data: str  # in words
    has_people: bool = False
    uid: str = ""  # as the row says
    proofs: tuple[str, ...] = ()
    new_secrets: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.uid and not self.has_people


def look(places: Paths, record: Record, *, new_secrets: bool = False) -> Found:
    """Read, and make nothing: not even an empty file where the database was."""
    from django.db import connection

    name = str(connection.settings_dict["NAME"])
    found = Found(name, record.read(), record.where, places.data(), new_secrets=new_secrets)
    if not has_tables():
        return found
    tables = set(connection.introspection.table_names())
    row: Any = None
    with connection.cursor() as cursor:
        people = "accounts_user" in tables
        if people:
            cursor.execute("SELECT 1 FROM accounts_user LIMIT 1")
            people = cursor.fetchone() is not None
    if "runtime_installation" in tables:
        from runtime.models import Installation

        row = Installation.objects.values("uid", "proofs").first()
    more = {"uid": str(row["uid"]), "proofs": tuple(row["proofs"])} if row else {}
    return Found(**{**vars(found), "has_people": people, **more})


def has_tables() -> bool:
    """Ask without making a file."""
    from django.db import connection

    if connection.vendor == "sqlite":
        try:
            if not Path(connection.settings_dict["NAME"]).stat().st_size:
                return False
        except OSError:
            return False
    return bool(connection.introspection.table_names())


def require_one(found: Found) -> None:
    """Refuse, in one sentence and with an exit code of its own, what is not of one installation."""
    if found.is_empty and (found.recorded or found.data):
        holds = found.data or f"{found.where}, which records installation {found.recorded},"
        message = (
            f"The database {found.database} is missing or empty, but {holds} is of an installation"
            " that was set up. Put the database back, or restore a backup with"
            f" `berth restore FILE`. {NOTHING} {ANEW}"
        )
    elif found.recorded and found.uid and found.recorded != found.uid:
        message = (
            f"The database {found.database} is that of installation {found.uid}, but {found.where}"
            f" records {found.recorded}. Put back what belongs together. {NOTHING} {ANEW}"
        )
    elif not found.is_empty and (found.new_secrets or not is_proved(found.proofs)):
        which = f" (installation {found.uid})" if found.uid else ""
        message = (
            "The secrets are missing, empty or another installation's: the database"
            f" {found.database}{which} was set up with others. Put secrets.json back from a backup;"
            " a key that was changed on purpose belongs into BERTH_SECRET_KEY_FALLBACKS."
            f" {NOTHING} {ANEW}"
        )
    elif found.uid and found.data and not found.recorded:
        message = (
            f"{found.where} is missing, which says whose data {found.data} is; the database"
            f" {found.database} is that of installation {found.uid}. Put the file back."
            f" {NOTHING} {ANEW}"
        )
    else:
        return
    raise Refusal(message, code=UNLIKE)


def settle(found: Found, record: Record, *, anew: bool = False) -> str:
    """After the migrations: the row, what proves the secrets, and the record say the same."""
    from runtime import installation
    from runtime.models import Installation

    fresh = new_uid() if anew else found.recorded or new_uid()
    row, _made = Installation.objects.get_or_create(defaults={"uid": fresh})
    if anew and not found.is_empty:
        installation.hold(Installation.Hold.ANEW)
    elif found.has_people and not found.uid and found.recorded:
        # set up already, and yet the database is from before there were marks: an older copy
        installation.hold(Installation.Hold.OLDER)
    if row.proofs != (wanted := proofs()):
        Installation.objects.update(proofs=wanted)
    if record.read() != str(row.uid):
        record.write(str(row.uid))
    return str(row.uid)


# --- Secrets --------------------------------------------------------------------------------------


def proofs() -> list[str]:
    """One for each key that opens: who lacks the newest yet, or still, is of this installation."""
    from django.conf import settings

    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [
        hmac.new(key.encode(), b"berth.installation", hashlib.sha256).hexdigest() for key in keys
    ]


def is_proved(known: Iterable[str]) -> bool:
    """Whether the secrets in use are those of the database; of one from before, nobody knows."""
    wanted = set(known)
    return not wanted or not wanted.isdisjoint(proofs())


# ``berth-server secrets``: what an installation needs to be secret, made once.
#
# Without options: lines for an environment file. ``--kubernetes NAME``: into a Secret of the
# namespace that this pod runs in; what is there already is never replaced.


ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PASSWORDS = ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "BERTH_METRICS_TOKEN", "BERTH_ADMIN_PASSWORD")
_TIMEOUT_S = 20
_OK, _MISSING, _CONFLICT = 200, 404, 409


def made() -> dict[str, str]:
    """Every secret, fresh. Safe inside an address: letters, digits, ``-`` and ``_`` only."""
    with tempfile.TemporaryDirectory() as folder:
        places = Paths(Path(folder))
        places.ensure_secrets()
        values: dict[str, str] = json.loads(places.secrets.read_text())
    return {**values, **{name: secrets.token_urlsafe(24) for name in PASSWORDS}}


def print_lines() -> int:
    for name, value in made().items():
        print(f"{name}={value}", flush=True)
    return 0


def host_key() -> str:
    """What the SSH gate shows people; all replicas must show the same."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return (
        Ed25519PrivateKey.generate()
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
        .decode()
    )


def into_secret(name: str) -> int:
    """Make the Secret, or add what a newer version needs besides."""
    namespace = _read("namespace")
    path = f"/api/v1/namespaces/{namespace}/secrets"
    values = {**made(), "BERTH_SSH_HOST_KEY": host_key()}
    fresh = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    status, found = _ask("GET", f"{path}/{name}")
    if status == _MISSING:
        labels = {"app.kubernetes.io/name": "berth", "app.kubernetes.io/managed-by": "berth"}
        meta = {"name": name, "labels": labels}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": fresh}
        status, found = _ask("POST", path, body)
        if status != _CONFLICT:
            return _told(status, found, f"made the Secret {name}.")
        status, found = _ask("GET", f"{path}/{name}")
    have = found.get("data") or {}
    lacking = {key: value for key, value in fresh.items() if key not in have}
    if not lacking:
        return _told(status, found, f"the Secret {name} has everything.")
    # A half of a pair from another making would open nothing.
    if any(("CLUSTER_P" in key) for key in lacking) and any("CLUSTER_P" in key for key in have):
        message = f"The Secret {name} has one half of the cluster keys; restore the other."
        raise Refusal(message)
    status, found = _ask("PATCH", f"{path}/{name}", {"data": lacking})
    return _told(status, found, f"added to the Secret {name}: {', '.join(sorted(lacking))}.")


class SecretRecord:
    """Which installation this is, in the Secret of its keys (``portal.server.installation``)."""

    KEY = "BERTH_INSTALLATION"

    def __init__(self, name: str) -> None:
        self.where = f"the Secret {name}"
        self._path = f"/api/v1/namespaces/{_read('namespace')}/secrets/{name}"

    def read(self) -> str:
        status, found = _ask("GET", self._path)
        if status != _OK:
            # where it may not be read (a Secret of the operators' own), there is no record
            say = found.get("message", "")
            print(f"berth: {self.where} can't be read ({status} {say})", flush=True)
            return ""
        text = (found.get("data") or {}).get(self.KEY, "")
        return base64.b64decode(text).decode(errors="replace")

    def write(self, uid: str) -> None:
        body = {"data": {self.KEY: base64.b64encode(uid.encode()).decode()}}
        status, found = _ask("PATCH", self._path, body)
        if status != _OK:
            say = found.get("message", "")
            print(f"berth: {self.where} can't be written ({status} {say})", flush=True)


def _told(status: int, answer: dict[str, Any], sentence: str) -> int:
    if status >= 300:  # noqa: PLR2004 - not a success
        message = f"The API server answered {status}: {answer.get('message', '')}"
        raise Refusal(message)
    print(f"berth: {sentence}", flush=True)
    return 0


def _read(name: str) -> str:
    try:
        return (ACCOUNT / name).read_text().strip()
    except OSError as error:
        message = "There is no service account in this container; is it a pod?"
        raise Refusal(message) from error


def _ask(method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    request = urllib.request.Request(
        f"https://{host}:{port}{path}",
        method=method,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Authorization": f"Bearer {_read('token')}", "Content-Type": kind},
    )
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
    )
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        try:
            return error.code, json.load(error)
        except ValueError:
            return error.code, {}
    except OSError as error:
        message = f"The API server does not answer ({error})."
        raise Refusal(message) from error
