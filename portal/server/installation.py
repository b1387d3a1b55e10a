"""Whether secrets, database and data are of one installation.

What was an installation is never begun anew unasked: everybody's work would look like an orphan.
The database has a row that says which installation it is and proves the secrets, and a record
beside the data says the same: a file in ``BERTH_VAR``, in a cluster a key of the Secret. Where
these disagree, or one of them is gone, a start ends with a sentence and nothing was touched.
"""

from __future__ import annotations

import hashlib
import hmac
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
    from runtime import orphans
    from runtime.models import Installation

    fresh = new_uid() if anew else found.recorded or new_uid()
    row, _made = Installation.objects.get_or_create(defaults={"uid": fresh})
    if anew and not found.is_empty:
        orphans.hold(Installation.Hold.ANEW)
    elif found.has_people and not found.uid and found.recorded:
        # set up already, and yet the database is from before there were marks: an older copy
        orphans.hold(Installation.Hold.OLDER)
    if row.proofs != (wanted := proofs()):
        Installation.objects.update(proofs=wanted)
    if record.read() != str(row.uid):
        record.write(str(row.uid))
    return str(row.uid)


# --- Secrets --------------------------------------------------------------------------------------


def proofs() -> list[str]:
    """One for each key that opens: who lacks the newest yet, or still, is of this installation."""
    from django.conf import settings

    return [_proof(key) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]


def is_proved(known: Iterable[str]) -> bool:
    """Whether the secrets in use are those of the database; of one from before, nobody knows."""
    wanted = set(known)
    return not wanted or not wanted.isdisjoint(proofs())


def _proof(key: str) -> str:
    return hmac.new(key.encode(), b"berth.installation", hashlib.sha256).hexdigest()
