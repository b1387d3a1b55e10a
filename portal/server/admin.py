"""``berth admin …``, ``berth orphans``: what an administrator does on the machine itself, without
signing in.
"""

import sys

from portal.server.paths import Refusal, private_umask
from portal.server.preflight import setup


def reset_password(name: str) -> int:
    """Prints a new password once, and ends every session of that person."""
    private_umask()
    setup()
    from django.db import DatabaseError

    from accounts.models import User
    from accounts.services.people import password_reset_by_operator

    try:
        user = User.objects.filter(username=name).first()
        if user is None:
            message = f"There is no user {name!r}."
            raise Refusal(message, code=4)
        password = password_reset_by_operator(who=None, user=user)
    except DatabaseError as error:
        message = f"The database can't be used: {error}. Has Berth been started here once?"
        raise Refusal(message) from error
    print(f"New password of {name}, shown this once: {password}")
    if not user.is_active:
        print(f"{name} is disabled and can't sign in until an operator enables the account.")
    sys.stdout.flush()
    return 0


def orphans(*, collect: bool, is_sure: bool) -> int:
    """Shows what was seen without a row, and lets Berth remove what is its own of it."""
    private_umask()
    setup()
    from django.db import DatabaseError

    from portal.server.restored import who
    from runtime import orphans
    from runtime.models import Installation

    try:
        own = Installation.objects.first()
    except DatabaseError as error:
        message = f"The database can't be used: {error}. Has Berth been started here once?"
        raise Refusal(message) from error
    if own is None:
        message = "The database was not set up yet."
        raise Refusal(message)
    for one in own.unknown:
        whose = {"own": "made by this installation", "": "without a mark: left"}
        said = whose.get(one["whose"], f"made by installation {one['whose']}: left")
        print(f"{one['cluster']}  {one['kind'] or 'workload'}  {one['uid']}  {one['seen']}  {said}")
    if not own.held_why:
        print("Nothing is held: what is this installation's and has no row is removed by itself.")
        return 0
    print(
        f"Held since {own.held_since:%Y-%m-%d %H:%M} UTC ({own.held_why}): nothing is removed for"
        " having no row. The worker writes down each minute what it sees without one."
    )
    if not collect:
        print("`berth orphans --collect` lets it be removed; as it is, it goes on.")
        return 0
    if not is_sure:
        count = sum(one["whose"] == "own" for one in own.unknown)
        message = (
            f"This ends {count} of the above within minutes, with what they have not saved."
            " `berth orphans --collect --yes` does it."
        )
        raise Refusal(message)
    orphans.release(by=who())
    print("Released: what is this installation's and has no row is removed within minutes.")
    return 0
