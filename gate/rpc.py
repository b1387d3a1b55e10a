"""What the gate answers to processes that hold no credential, and how they ask it.

Of a cluster (RemoteDriver), of what it holds of a workspace, and which key the SSH server shows.
The objects of a workspace are asked after access was checked. No secret is in them: Secrets are
never read, and the values of the environment are left out for everybody but the owner.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from django.conf import settings
from django.utils.translation import gettext as _

from clusters.models import Cluster
from clusters.registry import driver_for
from common.errors import BerthError, Conflict, Unavailable
from notebooks.ssh import ssh_server
from runtime import gateway
from runtime.capabilities.clusters import SupportsMetrics
from runtime.capabilities.volumes import SupportsVolumes
from runtime.capabilities.workloads import SupportsInspection, SupportsLogs
from runtime.protocol import Driver

MAX_LOG_PART = 4 * 1024 * 1024
MAX_UIDS = 1000
OBJECTS = "workspace/objects"
MOST_EVENTS = 100
TIMEOUT_S = 5.0  # so long a page waits for all of it
EVENTS_S = 2.5  # of which reading events may take so much
HOST_KEY = "ssh/host_key"
_PATIENCE_S = 2.0


def register() -> None:
    gateway.register("driver/read_log", read_log)
    gateway.register("driver/usage", usage)
    gateway.register("driver/volume_usage", volume_usage)
    gateway.register("driver/probe", probe)
    gateway.register(OBJECTS, read_objects)
    gateway.register(HOST_KEY, read_host_key)


def read_log(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    driver = _driver(payload)
    if not isinstance(driver, SupportsLogs):
        raise Conflict(_("This cluster keeps no logs."), code="no-logs")
    limit = min(int(payload.get("limit", 65536)), MAX_LOG_PART)
    data, following = driver.read_log(
        str(payload["uid"]),
        offset=int(payload.get("offset", 0)),
        limit=limit,
        replica=int(payload.get("replica", 0)),  # a portal before this one names none
    )
    return {"data": base64.b64encode(data).decode(), "offset": following}


def usage(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    driver = _driver(payload)
    if not isinstance(driver, SupportsMetrics):
        return {"usage": {}}
    uids = [str(uid) for uid in payload.get("uids", [])][:MAX_UIDS]
    return {"usage": {uid: dict(values) for uid, values in driver.usage(uids).items()}}


def volume_usage(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    driver = _driver(payload)
    if not isinstance(driver, SupportsVolumes):
        return {"bytes": None}
    return {"bytes": driver.volume_usage(str(payload["uid"]))}


def probe(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    health = _driver(payload).probe()
    return {"reachable": health.reachable, "version": health.version, "message": health.message}


def _driver(payload: Mapping[str, Any]) -> Driver:
    return driver_for(str(payload.get("cluster", "")))


@dataclass(frozen=True)
class SeenObjects:
    """``problem`` says why the rest is empty."""

    objects: tuple[Mapping[str, str], ...] = ()  # title and yaml of each
    events: tuple[Mapping[str, Any], ...] = ()
    more: bool = False  # there are other events, older ones
    unread: bool = False  # not all could be read in time: newer ones may be missing
    problem: str = ""


def ask_objects(cluster: str, objects: Mapping[str, str], *, with_env: bool) -> SeenObjects:
    payload = {"cluster": cluster, "with_env": with_env, **objects}
    try:
        said = gateway.ask(OBJECTS, payload, timeout_s=TIMEOUT_S)
    except BerthError as error:
        return SeenObjects(problem=error.message)
    return SeenObjects(
        objects=tuple(said["objects"]),
        events=tuple(said["events"]),
        more=bool(said.get("more")),  # a gate of the release before says neither
        unread=bool(said.get("unread")),
    )


def read_objects(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    driver = driver_for(str(payload["cluster"]))
    if not isinstance(driver, SupportsInspection):
        raise Unavailable(_("This process holds no key to clusters."))
    found = driver.inspect(
        {part: str(payload[part]) for part in ("namespace", "name", "pod")},
        for_owner=bool(payload.get("with_env")),
        most=MOST_EVENTS,
        seconds=EVENTS_S,
    )
    return {
        "objects": [
            {"title": title, "yaml": yaml.safe_dump(dict(one), sort_keys=False, allow_unicode=True)}
            for title, one in found.objects.items()
        ],
        "events": list(found.events),
        "more": found.more,
        "unread": found.unread,
    }


@dataclass(frozen=True)
class HostKey:
    line: str  # as in known_hosts, after the host's name
    fingerprint: str  # as ssh shows it


def read_host_key(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The public half. It is only read: whoever serves makes it."""
    del payload
    import asyncssh

    try:
        key = asyncssh.read_private_key(settings.BERTH_SSH_HOST_KEY_FILE)
    except (OSError, asyncssh.KeyImportError) as error:
        raise Unavailable(_("The key of the SSH server can't be read.")) from error
    kind, data = key.export_public_key().decode().split()[:2]
    return {"key": f"{kind} {data}", "fingerprint": key.get_fingerprint()}


def host_key() -> HostKey | None:
    """Return it; None where there is no SSH, or where the gate does not say it now."""
    if not settings.BERTH_SSH_PORT:
        return None
    try:
        said = gateway.ask(HOST_KEY, {}, timeout_s=_PATIENCE_S)
    except BerthError:
        return None
    return HostKey(str(said["key"]), str(said["fingerprint"]))


def ssh_shown() -> Mapping[str, str] | None:
    """Return where SSH keys open work, for the page of them; None where no cluster is attached.

    ``fingerprint`` is what people compare when ssh asks them; '' while the gate does not say it.
    """
    if not settings.BERTH_SSH_PORT or not Cluster.objects.running_images().exists():
        return None
    known = host_key()
    host, port = ssh_server()
    return {"host": host, "port": str(port), "fingerprint": known.fingerprint if known else ""}
