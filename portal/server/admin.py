"""``berth admin …``: what an administrator does on the machine itself, without signing in."""

import sys

from portal.server.places import Refusal, private_umask
from portal.server.preflight import setup


def reset_password(name: str) -> int:
    """Prints a new password once, and ends every session of that person."""
    private_umask()
    setup()
    from django.db import DatabaseError

    from accounts.models import User
    from accounts.services import password_reset_by_operator

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
