"""How kinds of workloads tell the Hub side who they are and who may open them.

Apps above (``notebooks``) register one ``WorkloadLookup`` in ``apps.ready()``. ``hubapi``
never imports them.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from uuid import UUID

from accounts.models import User
from hubapi.addresses import workload_url
from hubapi.models import Client
from runtime.protocol import Phase


class AccessLevel(StrEnum):
    """What a person is to a workload."""

    NONE = "none"
    VISITOR = "visitor"
    OWNER = "owner"


@dataclass(frozen=True)
class WorkloadInfo:
    """What the Hub side needs to know of a workload; no secrets, no environment."""

    uid: UUID
    kind: str
    short_id: str
    name: str
    owner_pk: int
    owner_uid: UUID
    owner_username: str
    owner_label: str
    project_uid: UUID
    phase: Phase
    launch: int
    page_url: str  # its page in the portal, a path
    public_url: str  # where a browser opens it (services.workload_url)
    resume_url: str  # a path that resumes it by POST and then shows its page
    parent: UUID | None = None  # of a port: the workload that it belongs to

    @property
    def workload_uid(self) -> UUID:
        """Whose people, consent and use count: a port has none of its own."""
        return self.parent or self.uid


class WorkloadLookup(ABC):
    """One kind of workload. Deleted rows are never found."""

    @abstractmethod
    def by_uid(self, uid: UUID) -> WorkloadInfo | None: ...

    @abstractmethod
    def by_short_id(self, short_id: str) -> WorkloadInfo | None: ...

    @abstractmethod
    def access(self, user: User, uid: UUID) -> AccessLevel:
        """Ask the database each time: whom the owner shared with, still in the project …"""

    def visitors(self, uid: UUID) -> Sequence[User]:
        """Whom it is shared with, for the share dialog of JupyterLab."""
        del uid
        return ()

    def openable_by(self, user: User) -> Sequence[WorkloadInfo]:
        """Running workloads that ``user`` may open, for links without a server in them."""
        del user
        return ()


_SHORT_ID = re.compile(r"\A[a-z0-9-]{1,40}\Z")
_lookups: list[WorkloadLookup] = []


def is_short_id(text: str) -> bool:
    """Ids come from host names and links: what can't be one is not looked for."""
    return bool(_SHORT_ID.match(text))


def register(lookup: WorkloadLookup) -> None:
    if lookup not in _lookups:
        _lookups.append(lookup)


def unregister(lookup: WorkloadLookup) -> None:
    """For tests."""
    if lookup in _lookups:
        _lookups.remove(lookup)


def by_uid(uid: UUID) -> WorkloadInfo | None:
    found = _workload(uid)
    return found or _port(Client.objects.filter(uid=uid, parent_uid__isnull=False).first())


def _workload(uid: UUID) -> WorkloadInfo | None:
    return next((found for one in _lookups if (found := one.by_uid(uid))), None)


def _port(client: Client | None) -> WorkloadInfo | None:
    """Return a port of a workload as what it is to a browser: a place of its own."""
    if client is None or client.parent_uid is None:
        return None
    info = _workload(client.parent_uid)
    if info is None:
        return None
    return replace(
        info,
        uid=client.uid,
        parent=info.uid,
        short_id=client.short_id,
        public_url=workload_url(client.short_id),
    )


def by_short_id(short_id: str) -> WorkloadInfo | None:
    if not is_short_id(short_id):
        return None
    found = next((found for one in _lookups if (found := one.by_short_id(short_id))), None)
    if found is not None or "-" not in short_id:
        return found
    return _port(Client.objects.filter(short_id=short_id, parent_uid__isnull=False).first())


def access(user: User, uid: UUID) -> AccessLevel:
    """Return what ``user`` is to the workload now; a disabled person is nothing to any."""
    if not user.is_active:
        return AccessLevel.NONE
    if (level := _level(user, uid)) != AccessLevel.NONE:
        return level
    parent = Client.objects.filter(uid=uid).values_list("parent_uid", flat=True).first()
    return _level(user, parent) if parent else AccessLevel.NONE


def _level(user: User, uid: UUID) -> AccessLevel:
    levels = (one.access(user, uid) for one in _lookups)
    return next((level for level in levels if level != AccessLevel.NONE), AccessLevel.NONE)


def visitors(uid: UUID) -> list[User]:
    return [user for one in _lookups for user in one.visitors(uid)]


def openable_by(user: User) -> list[WorkloadInfo]:
    if not user.is_active:
        return []
    return [info for one in _lookups for info in one.openable_by(user)]
