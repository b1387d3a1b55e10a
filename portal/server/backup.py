"""``berth backup`` and ``berth restore``: one file with what can't be made again.

It is a tar archive: ``manifest.json``, ``secrets.json`` (without it, what is encrypted or signed
can't be read any more), the database, and on request the homes.  The database is copied as of one
moment while Berth runs; homes are copied as they are found.
"""

import contextlib
import getpass
import io
import json
import os
import shutil
import sqlite3
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from portal.server.copies import (
    add_homes,
    belong,
    copy_sqlite,
    postgresql,
    put_acls,
    sqlite_path,
    vendor,
)
from portal.server.paths import Paths, Refusal, private_umask, running, write_private
from portal.server.preflight import setup

FORMAT = 1
DATABASE = {"sqlite": "database.sqlite3", "postgresql": "database.pgdump"}


def backup(name: str, *, homes: bool) -> int:
    private_umask()
    setup()
    from django.conf import settings

    places = Paths.from_environment()
    target = Path(name).absolute()
    if target.exists():
        message = f"{target} exists already; a backup never replaces one. Choose another name."
        raise Refusal(message)
    places.prepare()
    fresh = target.with_name(f".{target.name}.part")
    kind = vendor()
    try:
        # Beside the database, because its owner, not root, makes the copy.
        with tempfile.TemporaryDirectory(dir=places.var / "backups") as work:
            belong(Path(work), places.run.stat())
            with tarfile.open(fresh, "w:gz", compresslevel=6) as archive:
                add_text(archive, "manifest.json", json.dumps(manifest(kind, homes=homes)))
                with contextlib.suppress(FileNotFoundError):
                    archive.add(places.secrets, "secrets.json")
                archive.add(dump(kind, Path(work)), DATABASE[kind])
                if homes:
                    add_homes(archive, settings.BERTH_VOLUMES_DIR)
        fresh.replace(target)
    except OSError as error:
        message = f"The backup could not be written: {error.filename or target}: {error.strerror}."
        raise Refusal(message) from error
    finally:
        fresh.unlink(missing_ok=True)
    size = target.stat().st_size / 2**20
    print(
        f"Wrote {target} ({size:.1f} MiB). It holds the secrets: keep it where only you can read."
    )
    return 0


def restore(name: str, *, replace: bool, keep_access: bool = False) -> int:
    private_umask()
    places = Paths.from_environment()
    if running(places):
        message = "Berth runs; end it first with `berth down`."
        raise Refusal(message)
    source = Path(name).absolute()
    with opened(source) as archive:
        about = read_manifest(archive, source)
        setup()
        kind = vendor()
        if about["database"] != kind:
            message = f"This backup is of {about['database']}; BERTH_DATABASE_URL names {kind}."
            raise Refusal(message)
        if not replace and holds_data(kind):
            message = "There is data here already; --yes replaces it (the old is kept beside it)."
            raise Refusal(message)
        places.prepare()
        before = people()
        put_back(archive, about, kind, places)
    print(f"Restored the backup of {about['made_at']} made by Berth {about['version']}.")
    return restored(made_at=about["made_at"], before=before, keep_access=keep_access)


def manifest(kind: str, *, homes: bool) -> dict[str, Any]:
    from django.conf import settings

    made = datetime.now(UTC).isoformat(timespec="seconds")
    version = settings.BERTH_VERSION
    return {"format": FORMAT, "version": version, "made_at": made, "database": kind, "homes": homes}


def add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(text.encode()), 0o600
    archive.addfile(info, io.BytesIO(text.encode()))


def dump(kind: str, work: Path) -> Path:
    copy = work / DATABASE[kind]
    if kind == "sqlite":
        copy_sqlite(sqlite_path(), copy)
    else:
        postgresql("pg_dump", "--format=custom", "--no-owner", "--file", str(copy))
    return copy


def restore_homes(archive: tarfile.TarFile, volumes: Path) -> None:
    """Unpacks into folders that were not there: what is there belongs to people, who may have put
    a link where root would write. It is kept beside, closed.
    """
    members = checked_homes(archive, volumes.name)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    aside = volumes.with_name(f"{volumes.name}-replaced-{stamp}")
    for top in sorted({PurePosixPath(m.name).parts[1] for m in members if "/" in m.name}):
        if os.path.lexists(volumes / top):
            aside.mkdir(mode=0o700, exist_ok=True)
            (volumes / top).rename(aside / top)
    if aside.exists():
        print(f"The homes that were here are kept in {aside}.")
    # checked_homes has done what a filter does; Python 3.11.2 and older have none.
    trusted: dict[str, Any] = {}
    if hasattr(tarfile, "fully_trusted_filter"):
        trusted = {"filter": "fully_trusted"}
    archive.extractall(volumes.parent, members=members, **trusted)  # noqa: S202
    bare = [m.name for m in members if not put_acls(m, volumes.parent / m.name)]
    if bare:
        print(f"{len(bare)} files and folders lost their access lists: this disk keeps none.")


def checked_homes(archive: tarfile.TarFile, folder: str) -> list[tarfile.TarInfo]:
    """The members that are homes, renamed to this installation's folder; none leads out of it."""
    homes = [m for m in archive.getmembers() if m.name.partition("/")[0] == "volumes"]
    links = {PurePosixPath(m.name) for m in homes if m.issym()}
    for one in homes:
        names = [PurePosixPath(one.name)]
        if one.islnk():
            names.append(PurePosixPath(one.linkname))
        for name in names:
            if ".." in name.parts or name.parts[0] != "volumes" or links & set(name.parents):
                message = f"The backup holds {one.name}, which leads out of the homes."
                raise Refusal(message)
        if not (one.isreg() or one.isdir() or one.issym() or one.islnk()):
            message = f"The backup holds {one.name}, which is no file."
            raise Refusal(message)
        one.mode &= 0o2777 if one.isdir() else 0o777  # a shared folder passes its group on
        one.name = folder + one.name.removeprefix("volumes")
        if one.islnk():
            one.linkname = folder + one.linkname.removeprefix("volumes")
    return homes


@contextlib.contextmanager
def opened(source: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(source, "r:gz") as archive:
            yield archive
    except (OSError, tarfile.TarError, EOFError) as error:
        message = f"{source} can't be read as a backup: {error}."
        raise Refusal(message) from error


def read_manifest(archive: tarfile.TarFile, source: Path) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads(read(archive, "manifest.json"))
        known = about["format"] == FORMAT and about["database"] in DATABASE
    except (KeyError, TypeError, ValueError) as error:
        message = f"{source} is not a backup of Berth."
        raise Refusal(message) from error
    if not known:
        message = f"{source} was made by another version ({about.get('version')}); use that one."
        raise Refusal(message)
    return about


def read(archive: tarfile.TarFile, name: str) -> bytes:
    member = archive.extractfile(name)
    if member is None:
        raise KeyError(name)
    return member.read()


def holds_data(kind: str) -> bool:
    from django.db import connection

    if kind == "sqlite":
        return sqlite_path().exists()
    return bool(connection.introspection.table_names())


def put_back(archive: tarfile.TarFile, about: dict[str, Any], kind: str, places: Paths) -> None:
    from django.conf import settings

    with tempfile.TemporaryDirectory(dir=places.var / "backups") as work:
        fresh = Path(work) / DATABASE[kind]
        with fresh.open("wb") as file, contextlib.closing(member(archive, DATABASE[kind])) as data:
            shutil.copyfileobj(data, file)
        # Only now is everything read that could turn out to be broken.
        if kind == "sqlite":
            replace_sqlite(fresh, places)
        else:
            options = ("--clean", "--if-exists", "--no-owner", "--single-transaction")
            postgresql("pg_restore", *options, str(fresh))
    if "secrets.json" in archive.getnames():
        write_private(places.secrets, read(archive, "secrets.json").decode())
        belong(places.secrets, places.run.stat())
    if about["homes"]:
        restore_homes(archive, settings.BERTH_VOLUMES_DIR)


def member(archive: tarfile.TarFile, name: str) -> Any:
    try:
        return archive.extractfile(name)
    except KeyError as error:
        message = f"The backup holds no {name}."
        raise Refusal(message) from error


def replace_sqlite(fresh: Path, places: Paths) -> None:
    with contextlib.closing(sqlite3.connect(fresh)) as check:
        if check.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
            message = "The database in this backup is damaged; nothing was changed."
            raise Refusal(message)
    target = sqlite_path()
    if target.exists():
        kept = places.var / "backups" / datetime.now(UTC).strftime("replaced-%Y%m%d-%H%M%S.sqlite3")
        copy_sqlite(target, kept)
        print(f"The database that was here is kept as {kept}.")
    for leftover in (f"{target}-wal", f"{target}-shm"):
        Path(leftover).unlink(missing_ok=True)
    fresh.replace(target)
    target.chmod(stat.S_IRUSR | stat.S_IWUSR)
    belong(target, places.run.stat())


# What follows from a restore: a database of earlier knows nothing of what was cut since.
#
# Sessions end, and so does every other way in by itself, unless somebody says to keep it. Nothing
# that the database does not know is removed until an operator has looked (``berth orphans``).


def people() -> set[str] | None:
    """Return who may sign in, by the database that is about to be replaced; None: not known."""
    from django.db import DatabaseError, connection

    from accounts.models import User
    from portal.server.installation import has_tables

    try:
        if not has_tables():
            return None
        return set(User.objects.filter(is_active=True).values_list("username", flat=True))
    except DatabaseError:
        return None
    finally:
        connection.close()


def restored(*, made_at: str, before: set[str] | None = None, keep_access: bool = False) -> int:
    """Bring the database to this version, cut what may have been cut since, and say so."""
    from django.db import connection, transaction

    from accounts.models import User
    from common.ids import new_uid
    from events.services import record as event
    from portal.server.installation import FileRecord
    from portal.server.preflight import migrate, pending_migrations, unknown_migrations
    from runtime import installation
    from runtime.models import Installation

    setup()
    if unknown_migrations():
        message = "This database was made by a newer Berth. Install that one, and restore with it."
        raise Refusal(message)
    if pending_migrations():
        migrate()
    places = Paths.from_environment()
    places.prepare()
    record = FileRecord(places)
    with transaction.atomic():
        uid = record.read() or new_uid()
        own, _made = Installation.objects.get_or_create(defaults={"uid": uid})
        installation.hold(Installation.Hold.RESTORED)
        ended = _end_sessions() | ({} if keep_access else _end_access())
        revived = sorted(
            name
            for name in User.objects.filter(is_active=True).values_list("username", flat=True)
            if before is not None and name not in before
        )
        event(
            actor=None,
            verb="installation.restored",
            target=own,
            message=f"From a backup of {made_at}, by {who()} on the machine itself.",
            data={
                "made_at": made_at,
                "by": who(),
                "ended": ended,
                "can_sign_in_again": revived,
                "kept_access": keep_access,
            },
        )
    connection.close()
    record.write(str(own.uid))
    belong(places.installation, places.run.stat())
    _tell(made_at, ended, revived, knows_before=before is not None, keep_access=keep_access)
    return 0


def _end_sessions() -> dict[str, int]:
    from django.contrib.sessions.models import Session

    from accounts.models import User
    from accounts.services.sessions import sessions_end_all

    count = Session.objects.count()
    for user in User.objects.all():
        sessions_end_all(user=user)
    Session.objects.all().delete()
    return {"sessions": count}


def _end_access() -> dict[str, int]:
    """Nobody knows which of them were cut since the backup, so all of them are."""
    from accounts.models import ApiToken, SshKey, User
    from common.clock import now
    from projects.models import Invitation
    from projects.services.kube import grants_revoke_for

    tokens = ApiToken.objects.filter(revoked_at__isnull=True)
    invitations = Invitation.objects.filter(accepted_at__isnull=True, revoked_at__isnull=True)
    holders = User.objects.filter(kube_grants__revoked_at__isnull=True).distinct()
    return {
        "kubeconfigs": sum(grants_revoke_for(user=user) for user in holders),
        "tokens": tokens.update(revoked_at=now()),
        "invitations": invitations.update(revoked_at=now()),
        "ssh_keys": SshKey.objects.all().delete()[0],
    }


def who() -> str:
    """The user of this machine, as far as it is known."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


def _tell(
    made_at: str,
    ended: dict[str, int],
    revived: list[str],
    *,
    knows_before: bool,
    keep_access: bool,
) -> None:
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in ended.items())
    print(f"Ended: {counts}.")
    if keep_access:
        print(f"Tokens, SSH keys and kubeconfigs that were cut after {made_at} are good again.")
    else:
        print("People make new tokens, SSH keys and kubeconfigs; --keep-access would keep them.")
    if revived:
        print(f"These may sign in again, and could not before: {', '.join(revived)}.")
    elif not knows_before:
        print(f"Whoever was disabled or left a project after {made_at} may come in again.")
    print(
        "Look at Operators → People. Work that the backup does not know goes on: `berth orphans`."
    )
