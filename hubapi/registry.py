"""Workloads as the Hub side knows them: who may open them, and where they are found.

Apps above (``notebooks``) register one ``WorkloadLookup`` in ``apps.ready()``. ``hubapi``
never imports them. Addresses are for host routing and for path routing.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from uuid import UUID

from django.conf import settings

from accounts.models import User
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
    public_url: str  # where a browser opens it (workload_url)
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

    def beside(self, uid: UUID) -> Sequence[UUID]:
        """What its owner has in the same project, itself too: on one machine one user runs it."""
        return (uid,)

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


def beside(uid: UUID) -> list[UUID]:
    return [other for one in _lookups for other in one.beside(uid)]


def openable_by(user: User) -> list[WorkloadInfo]:
    if not user.is_active:
        return []
    return [info for one in _lookups for info in one.openable_by(user)]


CALLBACK = "oauth_callback"


def host_routing() -> bool:
    return str(settings.BERTH_NOTEBOOK_ROUTING) == "host"


def workload_host(short_id: str) -> str:
    """Return the host name that a workload has in the browser, without port."""
    if host_routing():
        return f"{short_id}.{settings.BERTH_NOTEBOOK_DOMAIN}"
    return str(settings.BERTH_NOTEBOOK_PATH_HOST)


def workload_origin(short_id: str) -> str:
    scheme, port = settings.BERTH_NOTEBOOK_SCHEME, int(settings.BERTH_NOTEBOOK_PORT)
    standard = {"http": 80, "https": 443}.get(scheme)
    suffix = "" if port == standard else f":{port}"
    return f"{scheme}://{workload_host(short_id)}{suffix}"


def base_path(short_id: str) -> str:
    """Return the path under which the server answers; begins and ends with a slash."""
    return "/" if host_routing() else f"/ws/{short_id}/"


def workload_url(short_id: str) -> str:
    """Return the address that a browser opens."""
    return workload_origin(short_id) + base_path(short_id)


def route_key(short_id: str) -> str:
    """Return the key of the proxy's route: its first part is the host under host routing."""
    return f"/{workload_host(short_id)}" if host_routing() else f"/ws/{short_id}"


def callback_url(short_id: str) -> str:
    return workload_url(short_id) + CALLBACK


def redirect_uris(short_id: str) -> list[str]:
    """Return every callback that is accepted, compared as strings.

    Without JUPYTERHUB_OAUTH_CALLBACK_URL a server sends its callback as a bare path.
    """
    return [callback_url(short_id), base_path(short_id) + CALLBACK]


def short_id_of_host(host: str) -> str:
    """Return the workload's id in a Host header, or an empty string."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    suffix = f".{settings.BERTH_NOTEBOOK_DOMAIN}"
    if not host_routing() or not name.endswith(suffix):
        return ""
    return name.removesuffix(suffix)


def short_id_of_path(path: str) -> str:
    """Return the workload's id in a path under path routing, or an empty string."""
    parts = path.split("/", 3)
    if host_routing() or len(parts) < 3 or parts[1] != "ws":  # noqa: PLR2004 - "", "ws", id
        return ""
    return parts[2].split("?", 1)[0]
