"""What the gate answers about a cluster to processes that hold no credential (RemoteDriver)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from clusters.registry import driver_for
from common.errors import Conflict
from runtime import gateway
from runtime.capabilities import SupportsLogs, SupportsMetrics, SupportsVolumes
from runtime.protocol import Driver

MAX_LOG_PART = 4 * 1024 * 1024
MAX_UIDS = 1000


def register() -> None:
    gateway.register("driver/read_log", read_log)
    gateway.register("driver/usage", usage)
    gateway.register("driver/volume_usage", volume_usage)
    gateway.register("driver/probe", probe)


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
