from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal


class HubapiConfig(AppConfig):
    name = "hubapi"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_out

        from accounts import hooks

        hooks.user_disabled.register(_user_disabled)
        hooks.sessions_ended.register(_sessions_ended)
        user_logged_out.connect(_logged_out, dispatch_uid="hubapi.logged_out")


def _user_disabled(user: "User", who: "Principal | None") -> None:
    from hubapi.services import revoke_user

    del who
    revoke_user(user)


def _sessions_ended(user: "User", session_keys: Sequence[str]) -> None:
    from hubapi.services import revoke_session

    del user
    for session_key in session_keys:
        revoke_session(session_key)


def _logged_out(sender: object, request: Any = None, **kwargs: Any) -> None:
    """The session is about to be emptied: take its notebook tokens along."""
    from hubapi.services import revoke_session

    del sender, kwargs
    session = getattr(request, "session", None)
    revoke_session(getattr(session, "session_key", "") or "")
