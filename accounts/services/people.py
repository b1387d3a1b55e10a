"""People: made, changed, disabled, refused by the identity provider, let in again."""

import secrets
from uuid import UUID

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext as _

from accounts import hooks
from accounts.models import (
    ApiToken,
    DeviceLogin,
    PlatformRole,
    ProviderGrant,
    Theme,
    User,
    username_validator,
)
from accounts.principal import Principal
from accounts.services.sessions import sessions_end_all
from accounts.timezones import is_timezone
from common.clock import now
from common.errors import Conflict, Forbidden, Invalid, NotFound, wrong
from events import services as events
from notifications.services import mail_queue, notify

# No l, o, 0, 1: an operator reads it aloud.
_PASSWORD_ALPHABET = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # noqa: S105 - letters
_PASSWORD_LENGTH = 16


@transaction.atomic
def user_create(
    *,
    who: Principal | None,
    username: str,
    email: str = "",
    password: str | None = None,
    display_name: str = "",
    platform_role: str = PlatformRole.NONE,
) -> User:
    """Make a local account. Without a password only single sign-on or a reset opens it."""
    require_operator(who)
    user = User(
        username=_free_username(username),
        email=_free_email(email),
        display_name=_line(display_name, "display_name", 120),
        platform_role=_platform_role(platform_role),
    )
    if password is None:
        user.set_unusable_password()
    else:
        _check_password(password, user)
        user.set_password(password)
    user.save()
    if user.email:
        # The operator vouches for it: he could set any password anyway.
        EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    events.record(
        actor=who, verb="user.created", target=user, data={"platform_role": user.platform_role}
    )
    return user


@transaction.atomic
def invited_user_accept(*, request: HttpRequest, user: User) -> None:
    """Use up the invitation that let ``user`` sign up; raises Conflict if it was used."""
    hooks.accept_invitation(request, user)


@transaction.atomic
def user_rename(*, who: Principal | None, user: User, display_name: str) -> User:
    require_operator(who)
    user.display_name = _line(display_name, "display_name", 120)
    user.save(update_fields=["display_name"])
    events.record(actor=who, verb="user.renamed", target=user)
    return user


@transaction.atomic
def profile_update(
    *,
    who: Principal,
    display_name: str | None = None,
    language: str | None = None,
    timezone: str | None = None,
    theme: str | None = None,
) -> User:
    """Change the own profile; what is None stays."""
    user = who.user
    changed = {}
    if display_name is not None:
        changed["display_name"] = _line(display_name, "display_name", 120)
    if language is not None:
        known = dict(settings.LANGUAGES)
        changed["language"] = _one_of(language, "language", {"", *known})
    if timezone is not None:
        if timezone and not is_timezone(timezone):
            raise Invalid(
                _("“%s” is no time zone.") % timezone[:64],
                fields={"timezone": [_("Choose a time zone of the list.")]},
            )
        changed["timezone"] = timezone
    if theme is not None:
        changed["theme"] = _one_of(theme, "theme", set(Theme.values))
    changed = {k: v for k, v in changed.items() if getattr(user, k) != v}
    for name, value in changed.items():
        setattr(user, name, value)
    if changed:
        user.save(update_fields=list(changed))
        events.record(
            actor=who, verb="profile.updated", target=user, data={"fields": sorted(changed)}
        )
    return user


@transaction.atomic
def user_disable(*, who: Principal | None, user: User, reason: str = "") -> User:
    """Cut everything the person has: sessions, tokens, notebooks; files stay."""
    require_operator(who)
    if user.is_active or user.disabled_by_provider:
        keep_one_operator(user, _("The last active operator can't be disabled."))
        user.is_active = False
        user.disabled_at = now()
        user.disabled_by_provider = False  # no sign-in lifts what an operator did
        user.save(update_fields=["is_active", "disabled_at", "disabled_by_provider"])
    ProviderGrant.objects.filter(user=user).delete()
    ApiToken.objects.filter(user=user, revoked_at__isnull=True).update(revoked_at=now())
    DeviceLogin.objects.filter(user=user, used_at__isnull=True).update(denied_at=now())
    sessions_end_all(user=user)
    hooks.user_disabled(user, who)
    events.record(actor=who, verb="user.disabled", target=user, message=reason)
    return user


@transaction.atomic
def user_enable(*, who: Principal | None, user: User) -> User:
    """Let the person in again; what was cut stays cut."""
    require_operator(who)
    if not user.is_active:
        user.is_active = True
        user.disabled_at = None
        user.disabled_by_provider = False
        user.save(update_fields=["is_active", "disabled_at", "disabled_by_provider"])
        ProviderGrant.objects.filter(user=user).delete()
        events.record(actor=who, verb="user.enabled", target=user)
    return user


@transaction.atomic
def set_platform_role(*, who: Principal | None, user: User, platform_role: str) -> User:
    """Give or take a role on the platform. Takes effect with the next request."""
    require_operator(who)
    wanted = _platform_role(platform_role)
    if wanted == user.platform_role:
        return user
    if wanted != PlatformRole.OPERATOR:
        keep_one_operator(user, _("The last active operator can't give up the role."))
    before, user.platform_role = user.platform_role, wanted
    user.save(update_fields=["platform_role"])
    events.record(
        actor=who,
        verb="user.role-changed",
        target=user,
        data={"from": before, "to": wanted},
    )
    return user


@transaction.atomic
def password_reset_by_operator(*, who: Principal | None, user: User) -> str:
    """Set a generated password, end all sessions, and return it to be told to the person."""
    require_operator(who)
    password = "".join(secrets.choice(_PASSWORD_ALPHABET) for _ in range(_PASSWORD_LENGTH))
    user.set_password(password)
    user.save(update_fields=["password"])
    sessions_end_all(user=user)
    events.record(actor=who, verb="user.password-reset", target=user)
    if user.last_login:  # who never signed in had none before that they knew
        notify(users=[user], kind="account.password-changed", url="/settings/security")
    return password


def require_operator(who: Principal | None) -> None:
    """Let operators pass, and Berth itself (None: commands on the server)."""
    if who is not None and not who.is_operator:
        raise Forbidden(_("Only operators may do this."))


def keep_one_operator(user: User, sentence: str) -> None:
    """Raise Conflict when nobody else could operate."""
    if user.platform_role != PlatformRole.OPERATOR or not user.is_active:
        return
    # Locked in one order, so that two operators who demote each other can't both succeed.
    active = (
        User.objects.select_for_update()
        .filter(platform_role=PlatformRole.OPERATOR, is_active=True)
        .order_by("pk")
    )
    if {row.pk for row in active} <= {user.pk}:
        raise Conflict(sentence, code="last-operator")


def _free_username(username: str) -> str:
    try:
        username_validator(username)
    except ValidationError as error:
        raise Invalid(error.messages[0], fields={"username": error.messages}) from error
    if User.objects.filter(username__iexact=username).exists():
        raise wrong("username", _("There is already a person with this username."))
    return username


def _free_email(email: str) -> str:
    email = email.strip().lower()
    if not email:
        return ""
    try:
        validate_email(email)
    except ValidationError as error:
        raise Invalid(error.messages[0], fields={"email": error.messages}) from error
    taken = EmailAddress.objects.filter(email__iexact=email, verified=True).exists()
    if taken or User.objects.filter(email__iexact=email).exists():
        raise wrong("email", _("There is already a person with this e-mail address."))
    return email


def _platform_role(value: str) -> str:
    return _one_of(value, "platform_role", set(PlatformRole.values))


def _one_of(value: str, field: str, allowed: set[str]) -> str:
    if value not in allowed:
        raise wrong(field, _("“%s” is not one of the choices.") % value[:40])
    return str(value)


def _line(value: str, field: str, limit: int) -> str:
    """Return one printable line: no control characters, not too long."""
    value = value.strip()
    if len(value) > limit or any(not c.isprintable() for c in value):
        raise wrong(field, _("One line of at most %d characters.") % limit)
    return value


def _check_password(password: str, user: User) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid(error.messages[0], fields={"password": error.messages}) from error


# Kept out because the identity provider says no, let in again when it says yes.
#
# The same as disabled (``is_active`` is False), but nothing that the next sign-in can't give back
# is taken away: API tokens and SSH keys are refused, not revoked.


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
