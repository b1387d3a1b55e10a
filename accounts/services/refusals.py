"""Kept out because the identity provider says no, let in again when it says yes.

The same as disabled (``is_active`` is False), but nothing that the next sign-in can't give back is
taken away: API tokens and SSH keys are refused, not revoked.
"""

from django.db import transaction
from django.utils.translation import gettext as _

from accounts import hooks
from accounts.models import DeviceLogin, ProviderGrant, User
from accounts.principal import Principal
from accounts.services.people import keep_one_operator
from accounts.services.sessions import sessions_end_all
from common.clock import now
from common.errors import Conflict
from events import services as events
from notifications.services import mail_queue, notify

_SAID = 200


@transaction.atomic
def user_refuse(*, user: User, said: str) -> None:
    """Keep the person out: the provider refused him. Called again, it changes nothing.

    The last active operator stays: a provider that lost its people must not take the portal along.
    """
    try:
        keep_one_operator(user, _("The last active operator can't be disabled."))
    except Conflict as error:
        _note_last_operator(user, said, error.message)
        return
    changed = User.objects.filter(pk=user.pk, is_active=True).update(
        is_active=False, disabled_by_provider=True, disabled_at=now()
    )
    if not changed:
        return
    user.refresh_from_db(fields=["is_active", "disabled_by_provider", "disabled_at"])
    ProviderGrant.objects.filter(user=user).update(refresh="", refuse_at=None, said=said[:_SAID])
    DeviceLogin.objects.filter(user=user, used_at__isnull=True).update(denied_at=now())
    sessions_end_all(user=user)
    hooks.user_disabled(user, None)
    events.record(actor=None, verb="user.refused", target=user, message=said[:_SAID])
    if user.email:  # what is for the account itself waits until he may come again
        mail_queue(
            to=user.email,
            kind="account.refused",
            params={},
            url="/accounts/login/",
            language=user.language,
        )


@transaction.atomic
def user_readmit(*, user: User, ip: str = "") -> None:
    """Lift the provider's no: it just said yes. What an operator disabled stays disabled."""
    changed = User.objects.filter(pk=user.pk, is_active=False, disabled_by_provider=True).update(
        is_active=True, disabled_by_provider=False, disabled_at=None
    )
    if not changed:
        return
    user.refresh_from_db(fields=["is_active", "disabled_by_provider", "disabled_at"])
    ProviderGrant.objects.filter(user=user).delete()
    events.record(actor=Principal(user=user, ip=ip), verb="user.readmitted", target=user)


def user_warn(*, user: User) -> None:
    """Tell the person that he will be kept out unless he signs in."""
    with transaction.atomic():
        events.record(actor=None, verb="user.sign-in-asked", target=user)
        notify(users=[user], kind="account.sign-in-again", url="/accounts/login/")


def _note_last_operator(user: User, said: str, why: str) -> None:
    """Once, however often the provider is asked."""
    told = ProviderGrant.objects.filter(user=user, said="").update(said=said[:_SAID])
    if told:
        events.record(
            actor=None, verb="user.refused", outcome="denied", target=user, message=f"{why} {said}"
        )
