"""Reading a log by byte offset, which the API does not know.

Offset 0 is the first byte that the node still has of a pod's main container (of the run that
ended, when one ended). A short memory holds the last part of each log that somebody reads, and
asks the node only for what is younger; lines are told apart by their nanosecond stamps. A log
that the node has rotated becomes shorter: the next offset then is smaller than the one asked.

When a workload is stopped, the end of its log is kept in a Secret beside it (nobody but its
owner may read it), so that why it failed can be read when its pod is gone. What its program told
of itself (``events``) is kept there, too.
"""

import base64
import gzip
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from runtime.capabilities.workloads import EventLines
from runtime.drivers.kubernetes import events, names, observe
from runtime.drivers.kubernetes.answers import in_words
from runtime.drivers.kubernetes.builders.workload import secret
from runtime.drivers.kubernetes.client import KubeClient, Object, path_of
from runtime.protocol import DriverError, NotYet

log = structlog.get_logger(__name__)

_SPOOLS = 64
_SPOOL_BYTES = 2 * 1024 * 1024
_FIRST_BYTES = 16 * 1024 * 1024
_KEEP_BYTES = 256 * 1024
_KEEP_ALL_BYTES, _KEEP_LEAST = 512 * 1024, 4 * 1024  # of a group: a Secret holds a MiB
_KEEP_LINES = 2000
_KEEP_EVENTS_OF_LINES = 20_000  # the last, in which events are looked for
_FRESH_S = 0.5
_OK = 200
# What a node says with 200 where a log should be, once it has removed the container.
_GONE = re.compile(rb"unable to retrieve container logs for [\w.+-]+://[0-9a-f]+\n?")
_LATER = frozenset({429, 500, 502, 503, 504})  # of the node or what is before it: not for good


@dataclass
class _Spool:
    """The last part of one container's log. ``start``: offset of ``data``'s first byte."""

    start: int = 0
    data: bytearray = field(default_factory=bytearray)
    stamp: str = ""  # of the last line
    read_at: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def add(self, text: bytes) -> None:
        self.data += text
        if (over := len(self.data) - _SPOOL_BYTES) > 0:
            del self.data[:over]
            self.start += over


class Logs:
    """``SupportsLogs`` of one cluster."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._spools: OrderedDict[tuple[str, str], _Spool] = OrderedDict()

    def read(
        self, found: Object, pod: Object | None, replica: int = 0, *, offset: int, limit: int
    ) -> tuple[bytes, int]:
        """Return bytes of the present launch's log from ``offset``, and where to go on."""
        launch, meta = observe.launch_of(found), found["metadata"]

        def kept() -> tuple[bytes, int]:
            text = self._kept(meta["name"], meta["namespace"], launch, _key(replica))
            return _part(0, _unzipped(text), offset, limit)

        if pod is None or observe.launch_of(pod) != launch:
            return kept()
        previous = _previous(found, pod)
        spool = self._spool(pod["metadata"]["uid"], previous)
        with spool.lock:
            self._refresh(spool, pod, previous=previous)
            if not spool.end and observe.is_going(pod):
                return kept()
            if offset >= spool.start:
                return _part(spool.start, bytes(spool.data), offset, limit)
        return _part(0, self._fetch(pod, previous=previous, limit=offset + limit), offset, limit)

    def read_events(
        self, pods: Sequence[Object], where: tuple[str, str], launch: int, cursor: str, limit: int
    ) -> EventLines:
        """Read on in what the first replica's ``pods`` told; where there are none, in what is kept.

        ``where``: name and namespace of the workload. Of a second in which more was printed than
        one answer holds, the rest is passed over. NotYet where the node does not give them now.
        """
        its = events.sources(pods)
        if not its:
            return events.unpacked(self._kept(*where, launch, events.KEY), cursor)
        container, stamp, step = events.place(cursor)
        known = [source.container for source in its]
        at, stamp = (known.index(container), stamp) if container in known else (0, "")
        data, read = bytearray(), 0
        for source in its[at:]:
            text = self._fetch(
                source.pod,
                previous=source.previous,
                since=events.second(stamp),
                stamps=True,
                limit=limit,
                is_needed=True,
            )
            read, is_cut, before = read + len(text), len(text) >= limit, stamp
            for when, line in events.stamped(text):
                if events.order(when) > events.order(stamp):
                    stamp = when
                    if events.is_event(line):
                        data += line + b"\n"
            if is_cut and b"\n" not in text:  # the same line may go on for long: in the next look
                cursor = events.stepped(source.container, before, text, step)
                return EventLines(bytes(data), cursor, read=read)
            if is_cut and stamp == before:
                stamp = events.second(stamp, after=1)
            cursor = f"{source.container} {stamp}"
            if is_cut or read >= limit:
                return EventLines(bytes(data), cursor, more=True, read=read)
            stamp = ""
        return EventLines(bytes(data), cursor, read=read)

    def keep(
        self, found: Object, pods: Sequence[Object | None], tells: Sequence[Object] = ()
    ) -> None:
        """Save the end of each replica's log before its pod goes; of very many, of the first.

        ``tells``: those that its first replica had, of which events are kept. A failure must not
        hold up a stop.
        """
        if not pods:  # of what serves there may be none
            return
        room = _KEEP_BYTES if len(pods) == 1 else max(_KEEP_ALL_BYTES // len(pods), _KEEP_LEAST)
        data = {}
        try:
            for number, pod in enumerate(pods[: _KEEP_ALL_BYTES // _KEEP_LEAST]):
                if pod is None or not observe.main_status(pod).get("containerID"):
                    continue
                before = _previous(found, pod)
                tail = self._fetch(pod, previous=before, lines=_KEEP_LINES)
                tail = tail or self._fetch(pod, previous=not before, lines=_KEEP_LINES)
                if tail := tail[-room:]:
                    data[_key(number)] = base64.b64encode(gzip.compress(tail, 6)).decode()
            if not data:
                return
            if lines := self._events_of(its := events.sources(tells)):
                data[events.KEY] = events.packed([source.container for source in its], lines)
            meta = found["metadata"]
            kept = {
                "labels": dict(meta.get("labels") or {}),
                "annotations": {names.LAUNCH: str(observe.launch_of(found))},
                "name": names.log_secret(meta["name"]),
                "namespace": meta["namespace"],
            }
            made = secret(kept, {})
            made["data"] = data
            self._client.apply(made)
        except DriverError as error:
            log.info("kubernetes.log_not_kept", error=str(error))

    def _events_of(self, its: Sequence[events.Source]) -> list[events.Line]:
        found: list[events.Line] = []
        for source in its:
            try:
                text = self._fetch(
                    source.pod, previous=source.previous, stamps=True, lines=_KEEP_EVENTS_OF_LINES
                )
            except DriverError as error:  # the end of the log is kept all the same
                log.info("kubernetes.events_not_kept", error=str(error))
                continue
            found += [
                events.Line(source.container, when, line)
                for when, line in events.stamped(text)
                if events.is_event(line)
            ]
        return found

    def _kept(self, name: str, namespace: str, launch: int, key: str) -> str:
        row = self._client.get("v1", "secrets", names.log_secret(name), namespace)
        if row is None or observe.launch_of(row) != launch:
            return ""
        return str((row.get("data") or {}).get(key, ""))

    # --- the node -----------------------------------------------------------------------------
    def _spool(self, pod_uid: str, previous: bool) -> _Spool:  # noqa: FBT001
        key = (pod_uid, "previous" if previous else "")
        with self._lock:
            spool = self._spools.setdefault(key, _Spool())
            self._spools.move_to_end(key)
            while len(self._spools) > _SPOOLS:
                self._spools.popitem(last=False)
            return spool

    def _refresh(self, spool: _Spool, pod: Object, *, previous: bool) -> None:
        over = observe.ending_of(pod) is not None
        if time.monotonic() - spool.read_at < _FRESH_S and not over:
            return
        since = events.second(spool.stamp)
        text = self._fetch(pod, previous=previous, since=since, stamps=True)
        spool.read_at = time.monotonic()
        last = spool.stamp
        fresh = bytearray()
        for line in re.findall(rb"[^\n]*\n|[^\n]+", text):  # a return ends none
            first, _, rest = line.partition(b" ")
            stamp = first.decode(errors="replace")
            if not events.second(stamp):
                fresh += line
                continue
            if events.order(stamp) <= events.order(last):
                continue
            spool.stamp = stamp
            fresh += rest
        spool.add(bytes(fresh))

    def _fetch(
        self,
        pod: Object,
        *,
        previous: bool,
        since: str = "",
        stamps: bool = False,
        lines: int = 0,
        limit: int = _FIRST_BYTES,
        is_needed: bool = False,
    ) -> bytes:
        meta = pod["metadata"]
        params = {
            "container": observe.main_name(pod),
            "limitBytes": str(min(limit, _FIRST_BYTES)),
            "previous": "true" if previous else "",
            "sinceTime": since,
            "timestamps": "true" if stamps else "",
            "tailLines": str(lines) if lines else "",
        }
        path = path_of("v1", "pods", meta["name"], meta["namespace"]) + "/log"
        answer = self._client.read_once(path, params)
        if is_needed and answer.status in _LATER:
            raise NotYet(in_words(answer), retry_in=5.0)
        is_log = answer.status == _OK and not _GONE.fullmatch(answer.body)
        return answer.body if is_log else b""


def _unzipped(value: str) -> bytes:
    try:
        return gzip.decompress(base64.b64decode(value))
    except (OSError, EOFError, ValueError):
        return b""


def _key(replica: int) -> str:
    return f"log-{replica}.gz" if replica else "log.gz"


def _previous(found: Object, pod: Object) -> bool:
    """Whether the run that counts is the one before the node's own restart: a StatefulSet's."""
    if observe.has_unnamed_pods(found):
        return False
    status = observe.main_status(pod)
    ended = (status.get("lastState") or {}).get("terminated")
    return bool(ended) and observe.ending_of(pod) is not None


def _part(start: int, data: bytes, offset: int, limit: int) -> tuple[bytes, int]:
    end = start + len(data)
    at = min(max(offset, start), end)
    part = data[at - start : at - start + limit]
    return part, at + len(part)
