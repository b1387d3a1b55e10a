"""The plan of one run, read strictly: nothing is guessed and nothing comes from elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NoReturn

from dataplane.addresses import Fence, opening
from dataplane.copy.keys import chosen_by
from dataplane.copy.problems import Final, Stop
from dataplane.safepath import OWN, UnsafePath, is_own, parts_of

DIRECTIONS = ("in", "out")
MODES = ("copy", "sync", "dry-run", "verify", "abandon", "clear")
KINDS = ("s3", "s3-compatible", "gcs", "hdfs", "mlflow")
_NO_BUCKETS = frozenset({"hdfs", "mlflow"})  # and nothing is written into them
CONCURRENCY_MAX = 256
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")


@dataclass(frozen=True)
class StorePlan:
    kind: str
    bucket: str
    prefix: str = ""
    objects: tuple[str, ...] | None = None
    endpoint: str = ""
    region: str = ""
    path_style: bool = False
    anonymous: bool = False
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    service_account: dict[str, Any] | None = field(default=None, repr=False)
    user: str = ""
    token: str = field(default="", repr=False)


@dataclass(frozen=True)
class OutboundPlan:
    """What the operator opened besides public addresses."""

    allow: tuple[str, ...] = ()
    ports: tuple[int, ...] = (443, 80)
    ca_file: str = ""
    insecure_hosts: tuple[str, ...] = ()
    gcs_endpoint: str = ""
    gcs_token_uri: str = ""
    fence: Fence | None = None  # None: nothing is known of one


@dataclass(frozen=True)
class Plan:
    uid: str
    launch: int
    direction: str
    mode: str
    store: StorePlan
    volume: str
    folder: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    delete_extra: bool = False
    bandwidth: int | None = None
    concurrency: int = 0
    retry_failed_only: bool = False
    space_bytes: int | None = None
    marker: str = ""  # an object beside what was copied out, once all of it is there
    tells: int = 0  # how many files the last report names
    newest: int = 0  # so many complete checkpoints, and nothing else; in: the newest of them
    newest_at: int = 0  # in: a folder with one of this time, or a later, needs none
    outbound: OutboundPlan = field(default_factory=OutboundPlan)
    report_url: str = ""
    report_every: float = 1.0

    @property
    def deletes(self) -> bool:
        """Whether what is extra goes: never by a list that does not name everything."""
        whole = self.store.objects is None and not self.retry_failed_only
        return self.mode == "sync" and self.delete_extra and whole


_VERSIONS = (1, 2)  # 2: with ``newest``, which a program of before would not see


def read(text: str | bytes, beside: Path | None = None) -> Plan:
    """Read a plan. A relative name of a file in it is one beside it."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        _wrong("it is not JSON")
    if not isinstance(data, dict) or data.get("version") not in _VERSIONS:
        _wrong("its version is not one of 1 and 2")
    try:
        return _plan(data, beside)
    except UnsafePath:
        _wrong("the folder is not below the volume")
    except (TypeError, ValueError, KeyError, AttributeError):
        _wrong("a value is missing or of the wrong kind")


def _plan(data: dict[str, Any], beside: Path | None) -> Plan:
    volume, report = data["volume"], data.get("report") or {}
    plan = Plan(
        uid=_text(data, "uid"),
        launch=int(data.get("launch", 1)),
        direction=_one_of(data["direction"], DIRECTIONS),
        mode=_one_of(data["mode"], MODES),
        store=_store(data["store"]),
        volume=_text(volume, "name"),
        folder=_text(volume, "folder").strip("/") if volume.get("folder") else "",
        include=_texts(data.get("include")),
        exclude=_texts(data.get("exclude")),
        delete_extra=bool(data.get("delete_extra")),
        bandwidth=_number(data.get("bandwidth_bytes_s")),
        concurrency=min(int(data.get("concurrency") or 0), CONCURRENCY_MAX),
        retry_failed_only=bool(data.get("retry_failed_only")),
        space_bytes=_number(data.get("space_bytes")),
        marker=str(data.get("marker") or ""),
        tells=int(data.get("tells") or 0),
        newest=int(data.get("newest") or 0),
        newest_at=int(data.get("newest_at") or 0),
        outbound=_outbound(data.get("outbound") or {}, beside),
        report_url=str(report.get("url") or ""),
        report_every=max(0.1, float(report.get("every_s") or 1.0)),
    )
    if len(parts_of(plan.volume)) != 1 or len(parts_of(plan.uid)) != 1:
        _wrong("the volume or the uid is not a name")
    if plan.folder and is_own(parts_of(plan.folder)[0]):
        _wrong(f"“{OWN}” is kept for the state of loads")
    if plan.delete_extra and plan.mode != "sync":
        _wrong("only “sync” deletes what is extra")
    try:
        chosen_by(plan.include, plan.exclude)
    except (ValueError, re.error):
        _wrong("a pattern can't be read")
    if plan.store.kind in _NO_BUCKETS and plan.direction == "out":
        _wrong("nothing is written into HDFS or MLflow")
    if plan.marker and plan.direction != "out":
        _wrong("only what is copied out is marked")
    if plan.newest < 0 or (plan.newest and (plan.mode not in {"copy", "abandon"} or plan.marker)):
        _wrong("checkpoints are copied, and an index of them is what marks them")
    if plan.concurrency < 0:
        _wrong("the concurrency is negative")
    return plan


def _store(data: dict[str, Any]) -> StorePlan:
    objects = data.get("objects")
    account = data.get("service_account")
    store = StorePlan(
        kind=_one_of(data["kind"], KINDS),
        bucket="" if data["kind"] in _NO_BUCKETS else _text(data, "bucket"),
        prefix=data.get("prefix") or "",
        objects=None if objects is None else _texts(objects),
        endpoint=data.get("endpoint") or "",
        region=data.get("region") or "",
        path_style=bool(data.get("path_style")),
        anonymous=bool(data.get("anonymous")),
        access_key=data.get("access_key") or "",
        secret_key=data.get("secret_key") or "",
        session_token=data.get("session_token") or "",
        service_account=dict(account) if account else None,
        user=data.get("user") or "",
        token=data.get("token") or "",
    )
    if store.kind not in _NO_BUCKETS and not _BUCKET.fullmatch(store.bucket):
        _wrong("the bucket has no name that a bucket can have")
    if store.kind in {"s3-compatible", *_NO_BUCKETS} and not store.endpoint:
        _wrong("the store needs its endpoint")
    _check_identity(store)
    return store


def _check_identity(store: StorePlan) -> None:
    """Explicit or anonymous, never what the machine would lend (D3)."""
    lines = (
        *(store.access_key, store.secret_key, store.session_token, store.region),
        *(store.user, store.token),
    )
    if any(not line.isascii() or not line.isprintable() or " " in line for line in lines):
        _wrong("the credential holds characters that no credential has")
    if store.kind == "mlflow" or (store.anonymous and store.kind != "hdfs"):
        return  # a tracking server may ask for nobody
    if store.kind == "hdfs":
        if not (store.user or store.token):
            _wrong("the credential names neither a user nor a token")
    elif store.kind == "gcs":
        if not store.service_account:
            _wrong("there is no service account, and it does not say anonymous")
    elif not (store.access_key and store.secret_key):
        _wrong("the credential is not complete, and it does not say anonymous")


def _outbound(data: dict[str, Any], beside: Path | None) -> OutboundPlan:
    authorities = str(data.get("ca_file") or "")
    if authorities and beside is not None:
        authorities = str(beside / authorities)
    return OutboundPlan(
        allow=_texts(data.get("allow")),
        ports=tuple(int(port) for port in data.get("ports") or (443, 80)),
        ca_file=authorities,
        insecure_hosts=_texts(data.get("insecure_hosts")),
        gcs_endpoint=str(data.get("gcs_endpoint") or ""),
        gcs_token_uri=str(data.get("gcs_token_uri") or ""),
        fence=_fence(data["fence"]) if data.get("fence") else None,
    )


def _fence(data: dict[str, Any]) -> Fence:
    return Fence(
        internet=bool(data["internet"]),
        openings=tuple(map(opening, _texts(data.get("opened")))),
        blocked=tuple(map(ip_network, _texts(data.get("blocked")))),
        closed=tuple(map(ip_network, _texts(data.get("closed")))),
    )


def _text(data: dict[str, Any], name: str) -> str:
    value = data[name]
    if not isinstance(value, str) or not value:
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or any(not isinstance(v, str) or not v for v in value):
        raise TypeError
    return tuple(value)


def _number(value: Any) -> int | None:
    if value is None:
        return None
    number = int(value)
    if number < 0:
        raise ValueError
    return number


def _one_of(value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError
    return str(value)


def _wrong(why: str) -> NoReturn:
    raise Stop(Final.BAD_PLAN, f"The plan of this load can't be carried out: {why}.")
