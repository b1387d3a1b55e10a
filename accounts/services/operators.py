"""What an operator may end for somebody else: sessions and tokens (not read or make them)."""

from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from accounts import hooks
from accounts.models import ApiToken, User
from accounts.principal import Principal
from accounts.services.people import require_operator
from accounts.services.sessions import sessions_end_all
from common.clock import now
from common.errors import NotFound
from events import services as events


@transaction.atomic
def sessions_end_by_operator(*, who: Principal, user: User) -> None:
    """End every session of ``user``; he may sign in again."""
    require_operator(who)
    sessions_end_all(user=user)
    events.record(actor=who, verb="user.sessions-ended", target=user)


@transaction.atomic
def token_revoke_by_operator(*, who: Principal, user: User, uid: UUID | str) -> ApiToken:
    """Revoke one token of ``user``; revoking twice is no error."""
    require_operator(who)
    try:
        token = ApiToken.objects.filter(uid=UUID(str(uid)), user=user).first()
    except ValueError:
        token = None
    if token is None:
        raise NotFound(_("There is no such token."))
    if token.revoked_at is None:
        token.revoked_at = now()
        token.save(update_fields=["revoked_at"])
        events.record(actor=who, verb="token.revoked", target=token, message=user.username)
        hooks.token_revoked(token, who)
    return token
