"""Places kept for people by mail address.

The link's secret is derived from the server's key and the row, so that it can be mailed and
shown again without being stored; the row keeps only its SHA-256.
"""

import base64
import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.http import HttpRequest
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from accounts.crypto import seal, unseal
from accounts.hooks import Permit
from accounts.models import User
from accounts.principal import Principal
from common.clock import now
from common.errors import Conflict, Forbidden, Invalid, NotFound
from common.middleware import client_ip
from events.services import record
from notifications.services import mail_queue
from projects.access import Permission, require
from projects.choices import RANK, Role
from projects.models import Invitation, Membership, Project
from projects.services.life import changed, lock
from projects.services.members import check_grant

LIFETIME = timedelta(days=7)
MOST_OPEN = 200  # of one project at a time


@transaction.atomic
def invitation_create(
    *, principal: Principal, project: Project | None, email: str, role: Role = Role.MEMBER
) -> Invitation:
    """Invite by mail. Without a project (operators only) it is an account, nothing more."""
    email = _checked_email(email)
    if project is None:
        if not principal.is_operator:
            raise Forbidden(_("Only operators may do this."))
    else:
        require(principal, project, Permission.MEMBER_MANAGE)
        project = lock(project)
        check_grant(principal, project, role)
        _check_room(project, email)
    row = Invitation(
        project=project,
        email=email,
        role=role,
        invited_by=principal.user,
        created_at=now(),
        expires_at=now() + LIFETIME,
    )
    row.digest = _digest(_secret(row.uid))
    row.save()
    record(
        actor=principal,
        verb="invitation.created",
        target=row,
        target_name=email,
        project_uid=project.uid if project else None,
        data={"role": role.value},
    )
    mail_queue(
        to=email,
        kind="project.invited",
        params={
            "invitation": str(row.uid),
            "who": principal.user.label,
            "name": project.name if project else "Berth",
        },
    )
    return row


@transaction.atomic
def invitation_revoke(*, principal: Principal, invitation: Invitation) -> None:
    """Make the link worthless; revoking twice is fine, an accepted one stays accepted."""
    if invitation.project is not None:
        require(principal, invitation.project, Permission.MEMBER_MANAGE)
    elif not principal.is_operator:
        raise Forbidden(_("Only operators may do this."))
    changed_rows = Invitation.objects.filter(
        pk=invitation.pk, accepted_at__isnull=True, revoked_at__isnull=True
    ).update(revoked_at=now())
    if changed_rows:
        record(
            actor=principal,
            verb="invitation.revoked",
            target=invitation,
            project_uid=invitation.project.uid if invitation.project else None,
        )


def invitation_find(secret: str) -> Invitation:
    """Return the open invitation behind a link; used, revoked, expired and unknown are alike."""
    row = (
        Invitation.objects.select_related("project", "invited_by")
        .filter(digest=_digest(secret), accepted_at__isnull=True, revoked_at__isnull=True)
        .filter(expires_at__gt=now())
        .first()
    )
    if row is None or (row.project is not None and row.project.deleted_at is not None):
        raise NotFound(
            _("This invitation does not hold any more: it was used, withdrawn, or is too old.")
        )
    return row


@transaction.atomic
def invitation_accept(*, user: User, secret: str, ip: str = "") -> Invitation:
    """Use the invitation up, once; the person becomes a member (or keeps a higher role)."""
    row = invitation_find(secret)
    used = Invitation.objects.filter(
        pk=row.pk, accepted_at__isnull=True, revoked_at__isnull=True
    ).update(accepted_at=now())
    if not used:
        raise Conflict(_("This invitation was used already."))
    who = Principal(user=user, ip=ip)
    record(
        actor=who,
        verb="invitation.accepted",
        target=row,
        project_uid=row.project.uid if row.project else None,
        data={"role": row.role},
    )
    if row.project is not None:
        _join(lock(row.project), user, Role(row.role))
    return row


def invitation_link(invitation: Invitation) -> str:
    """Return the address to mail; only who may invite is ever shown it."""
    return f"{settings.BERTH_PUBLIC_URL}/invitations/{_secret(invitation.uid)}/"


def mail_link(params: Mapping[str, Any]) -> str:
    """The link of the mail, made when it is sent (notifications.kinds.register_mail_url)."""
    try:
        return f"{settings.BERTH_PUBLIC_URL}/invitations/{_secret(UUID(params['invitation']))}/"
    except (KeyError, ValueError):
        return str(settings.BERTH_PUBLIC_URL)


def _join(project: Project, user: User, role: Role) -> None:
    row, made = Membership.objects.get_or_create(
        project=project, user=user, defaults={"role": role}
    )
    if not made and RANK[role] > RANK[Role(row.role)]:
        row.role = role
        row.save(update_fields=["role"])
    changed(project)


def _secret(uid: UUID) -> str:
    mac = salted_hmac("berth.invitation", str(uid), algorithm="sha256").digest()
    return base64.urlsafe_b64encode(mac).decode().rstrip("=")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _checked_email(email: str) -> str:
    email = email.strip().lower()
    try:
        validate_email(email)
    except ValidationError as error:
        raise Invalid(error.messages[0], fields={"email": list(error.messages)}) from error
    return email


def _check_room(project: Project, email: str) -> None:
    """One open invitation per address; withdraw it to send another."""
    open_rows = Invitation.objects.filter(
        project=project, accepted_at__isnull=True, revoked_at__isnull=True, expires_at__gt=now()
    )
    if open_rows.filter(email=email).exists():
        raise Conflict(_("There is an open invitation for this address."), code="already-invited")
    if open_rows.count() >= MOST_OPEN:
        raise Conflict(_("Too many open invitations; withdraw some."))
    if Membership.objects.filter(project=project, user__email__iexact=email).exists():
        raise Conflict(_("Somebody with this address is a member already."), code="already-member")


SESSION_SECRET = "berth_invitation"  # noqa: S105 - the name of a session key


def secret_keep(request: HttpRequest, secret: str) -> None:
    """Keep a link's secret in the session; encrypted, because the session is a row."""
    request.session[SESSION_SECRET] = seal(secret)


def secret_of(request: HttpRequest) -> str:
    return unseal(request.session.get(SESSION_SECRET, "")) or ""


def secret_take(request: HttpRequest) -> str:
    secret = secret_of(request)
    request.session.pop(SESSION_SECRET, None)
    return secret


class InvitationGate:
    """The link's secret lies in the visitor's session, never in a later address."""

    def permit(self, request: HttpRequest) -> Permit | None:
        secret = secret_of(request)
        if not secret:
            return None
        try:
            row = invitation_find(secret)
        except NotFound:
            return None
        return Permit(email=row.email)

    def accept(self, request: HttpRequest, user: User) -> None:
        secret = secret_take(request)
        invitation_accept(user=user, secret=secret, ip=client_ip(request))
