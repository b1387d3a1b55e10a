"""What follows from a restore: a database of earlier knows nothing of what was cut since.

Sessions end, and so does every other way in by itself, unless somebody says to keep it. Nothing
that the database does not know is removed until an operator has looked (``berth orphans``).
"""

import getpass
import os

from portal.server.paths import Paths, Refusal


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
    from portal.server.database_files import belong
    from portal.server.installation import FileRecord
    from portal.server.preflight import migrate, pending_migrations, unknown_migrations
    from runtime import orphans
    from runtime.models import Installation

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
        orphans.hold(Installation.Hold.RESTORED)
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
