"""Acts on the work of somebody else: whoever does one says why, and the owner is told it."""

from typing import Protocol

from django.utils.translation import gettext as _

from accounts.models import User
from accounts.principal import Principal
from common.errors import wrong
from notifications.services import notify

REASON_MAX = 300


class Work(Protocol):
    """A workspace, a load or a volume."""

    @property
    def uid(self) -> object: ...
    @property
    def name(self) -> str: ...
    @property
    def project_id(self) -> int: ...
    def get_absolute_url(self) -> str: ...


def reason_for(who: Principal, owner: User | None, reason: str) -> str:
    """Return why ``who`` ends what is the owner's, in one line; '' for one's own work.

    Invalid where it is somebody else's and nothing is said: its owner will ask.
    """
    if owner is None or owner.pk == who.user.pk:
        return ""
    said = " ".join(reason.split())
    if not said or len(said) > REASON_MAX or not said.isprintable():
        sentence = _("This belongs to %(owner)s. Give a reason of at most %(n)d characters.")
        raise wrong("reason", sentence % {"owner": owner.label, "n": REASON_MAX})
    return said


def tell_owner(
    who: Principal, owner: User | None, kind: str, row: Work, said: str, *, url: str = ""
) -> None:
    """Tell the owner who did it and why; nothing where it was their own act. ``url``: of what
    stays, where the row itself goes at once.
    """
    if owner is None or not said:
        return
    notify(
        users=[owner],
        kind=kind,
        params={"who": who.user.label, "name": row.name, "reason": said},
        url=url or row.get_absolute_url(),
        key=str(row.uid),
        project_id=row.project_id,
    )
