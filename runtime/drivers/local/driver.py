"""The local driver: ``runtime.protocol.Driver`` over the supervisor's socket.

One short connection for each request, so any thread may ask.
"""

import base64
import contextlib
import json
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings

from runtime import training
from runtime.capabilities.workloads import EventLines
from runtime.drivers.local.gpus import GpuSource, gpu_source, played
from runtime.drivers.local.requests import HEARTBEAT_S, encode
from runtime.drivers.mounts import checked
from runtime.protocol import (
    Denied,
    DriverError,
    Health,
    InvalidSpec,
    NoCapacity,
    NotYet,
    Observation,
    Unreachable,
    observation_read,
)
from runtime.spec import Backing, WorkloadSpec
from runtime.use_sources import DeviceUse, Holder, UseSource

_TIMEOUT_S = 30.0
_STOP_CHECK_S = 1.0
_SILENCE_S = HEARTBEAT_S * 2.5
_EVENTS_BYTES = 1024 * 1024  # no more of a file is in an answer

_KINDS: dict[str, type[DriverError]] = {
    "invalid-spec": InvalidSpec,
    "denied": Denied,
    "no-capacity": NoCapacity,
}


class Client:
    """Blocking client of the supervisor's socket."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_TIMEOUT_S)
        try:
            connection.connect(str(self.path))
        except OSError as problem:
            connection.close()
            raise Unreachable(
                f"the workload supervisor does not answer ({problem.strerror})",
                reason="unreachable",
            ) from problem
        return connection

    def ask(self, verb: str, **fields: Any) -> Any:
        """Ask once; raise what the answer says."""
        with self._connect() as connection:
            try:
                connection.sendall(encode({"verb": verb, **fields}))
                with connection.makefile("rb") as lines:
                    line = lines.readline()
            except OSError as problem:
                raise Unreachable(
                    "the workload supervisor went away", reason="unreachable"
                ) from problem
        if not line.endswith(b"\n"):
            raise Unreachable("the workload supervisor went away", reason="unreachable")
        answer = json.loads(line)
        kind = answer.get("error")
        if kind is None:
            return answer["result"]
        message, reason = str(answer.get("message", "")), str(answer.get("reason", ""))
        if kind == "not-yet":
            raise NotYet(message, retry_in=float(answer.get("retry_in") or 1.0))
        raise _KINDS.get(kind, DriverError)(message, reason=reason)

    def follow(self, *, stop: Callable[[], bool]) -> Iterator[list[dict[str, Any]]]:
        """Yield the lists of ``watch`` until ``stop``; raise Unreachable when it breaks."""
        with self._connect() as connection:
            buffer, silent = b"", 0.0
            connection.settimeout(_STOP_CHECK_S)
            try:
                connection.sendall(encode({"verb": "watch"}))
                while not stop():
                    try:
                        data = connection.recv(1 << 18)
                    except TimeoutError:
                        silent += _STOP_CHECK_S
                        if silent > _SILENCE_S:
                            break
                        continue
                    if not data:
                        break
                    silent = 0.0
                    *lines, buffer = (buffer + data).split(b"\n")
                    for line in lines:
                        yield json.loads(line)["items"]
            except OSError as problem:
                raise Unreachable("the watch broke", reason="unreachable") from problem
        if not stop():
            raise Unreachable("the watch broke", reason="unreachable")


_FOLDERS = ("", "directory")  # what this machine's volumes are


class LocalDriver:
    """Thread-safe; holds no connection, so a restarted supervisor is simply found again."""

    def __init__(
        self,
        socket: Path | str | None = None,
        *,
        gpus: GpuSource | None = None,
        installation: str = "",
    ) -> None:
        """Where nothing is said, the settings say it."""
        self._installation = installation
        self._client = Client(Path(socket or settings.BERTH_SUPERVISOR_SOCKET))
        self._gpus = gpus or gpu_source(settings.BERTH_SIMULATED_GPUS)

    def ensure(self, spec: WorkloadSpec) -> Mapping[str, object]:
        """Secrets are made and sent only when the supervisor says it will start something."""
        wire = {**_wire(spec), "installation": self._installation}
        # A supervisor that is older than groups lives on; it must not start one process of them.
        verb = "ensure_group" if spec.is_group else "ensure"
        if spec.serve is not None:
            if spec.serve.replicas < 1:
                raise InvalidSpec("What serves begins with one replica or more.")
            verb = "ensure_serving"
        reference: Mapping[str, object] = self._made(verb, spec, wire)["ref"]
        return reference

    def scale(self, spec: WorkloadSpec) -> None:
        self._made("scale", spec, {**_wire(spec), "installation": self._installation})

    def _made(self, verb: str, spec: WorkloadSpec, wire: Mapping[str, Any]) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self._client.ask(verb, spec=wire)
        if answer.get("need_secrets"):
            answer = self._client.ask(verb, spec=wire, secrets=_secrets(spec))
        return answer

    def refresh_secrets(self, spec: WorkloadSpec) -> None:
        self._client.ask(
            "refresh_secrets", uid=spec.uid, launch=spec.launch, secrets=_secrets(spec)
        )

    def observe(self, uids: Iterable[str]) -> Mapping[str, Observation]:
        answer = self._client.ask("observe", uids=list(uids))
        return {item["uid"]: observation_read(item) for item in answer}

    def stop(self, uid: str, *, grace_s: float) -> None:
        self._client.ask("stop", uid=uid, grace_s=grace_s)

    def tell(self, uid: str, notice: Mapping[str, str]) -> None:
        # A supervisor that is older than notices lives on: its work ends without one.
        with contextlib.suppress(DriverError):
            self._client.ask("tell", uid=uid, notice=dict(notice))

    def remove(self, uid: str) -> None:
        self._client.ask("remove", uid=uid, installation=self._installation)

    def list_owned(self) -> Iterable[Observation]:
        return [observation_read(item) for item in self._client.ask("list")]

    def adopt(self, uid: str) -> None:
        self._client.ask("adopt", uid=uid, installation=self._installation)

    def probe(self) -> Health:
        facts = self._client.ask("probe")
        return Health(
            reachable=True,
            version=facts["version"],
            cpu_milli=facts["cpu_milli"],
            memory_mib=facts["memory_mib"],
            devices=self._gpus.devices(),
            isolation=facts["isolation"],
            message=facts["message"],
            operators=("mpi",) if shutil.which("mpirun") else (),
        )

    # -- SupportsWatch, SupportsVolumes ------------------------------------------------------

    def watch(self, *, stop: Callable[[], bool]) -> Iterator[list[Observation]]:
        for items in self._client.follow(stop=stop):
            yield [observation_read(item) for item in items]

    def ensure_volume(
        self, volume_uid: str, *, project: str, owner: str, backing: Backing | None = None
    ) -> None:
        del backing  # one kind of volume: a folder; its size is watched, not enforced
        self._client.ask("ensure_volume", volume_uid=volume_uid, project=project, owner=owner)

    def remove_volume(self, volume_uid: str) -> None:
        self._client.ask("remove_volume", volume_uid=volume_uid)

    def volume_usage(self, volume_uid: str) -> int | None:
        used: int | None = self._client.ask("volume_usage", volume_uid=volume_uid)
        return used

    # -- SupportsSnapshots, SupportsMoves ----------------------------------------------------

    def can_snapshot(self, backing: Backing) -> bool:
        return backing.kind in _FOLDERS

    def ensure_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> int:
        del backing
        size: int = self._client.ask("ensure_snapshot", uid=snapshot_uid, volume_uid=volume_uid)
        return size

    def restore_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> None:
        del backing
        self._client.ask("restore_snapshot", uid=snapshot_uid, volume_uid=volume_uid)

    def remove_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> None:
        del volume_uid, backing
        self._client.ask("remove_snapshot", uid=snapshot_uid)

    def can_move(self, backing: Backing) -> bool:
        return backing.kind in _FOLDERS

    def move_volume(self, volume_uid: str, *, project: str, owner: str, backing: Backing) -> None:
        """A shared volume has a group of its own, whichever project it belongs to."""
        if owner:
            raise InvalidSpec("What is one person's alone stays in its project.")
        self.ensure_volume(volume_uid, project=project, owner=owner, backing=backing)

    # -- SupportsLogs, SupportsMetrics, SupportsDeviceUse ------------------------------------

    def read_log(
        self, uid: str, *, offset: int = 0, limit: int = 65536, replica: int = 0
    ) -> tuple[bytes, int]:
        answer = self._client.ask("read_log", uid=uid, offset=offset, limit=limit, replica=replica)
        return base64.b64decode(answer["data"]), answer["next"]

    def read_events(
        self, uid: str, *, launch: int, cursor: str = "", limit: int = 65536
    ) -> EventLines:
        offset, limit = int(cursor or 0), min(limit, _EVENTS_BYTES)
        answer = self._client.ask("read_events", uid=uid, launch=launch, offset=offset, limit=limit)
        if answer["next"] < offset:  # its program began the file anew
            return EventLines(b"", "0", more=True, again=True)
        data = base64.b64decode(answer["data"])
        is_over = answer.get("over", False)  # not told by a supervisor of the version before
        return EventLines.of_file(data, offset, limit=limit, is_over=is_over)

    def usage(self, uids: Iterable[str]) -> Mapping[str, Mapping[str, float]]:
        answer = self._client.ask("usage", uids=list(uids))
        return {uid: found["usage"] for uid, found in answer.items()}

    def device_use(
        self, holders: Iterable[Holder], sources: Iterable[UseSource]
    ) -> Sequence[DeviceUse]:
        """Return every GPU of the machine; it needs no ``sources``."""
        del sources
        held_by = {device: holder for holder in holders for device in holder.ids}
        return [
            DeviceUse(
                device.uuid,
                holder.uid if holder else "",
                device.utilisation,
                device.memory_used_mib,
                simulated=device.simulated,
            )
            for found in self._gpus.devices()
            for holder in [held_by.get(found.uuid)]
            for device in [played(found, holder) if found.simulated else found]
        ]

    # -- beyond the protocol -----------------------------------------------------------------

    def shutdown(self, *, workspaces: bool = False) -> None:
        """End the supervisor; with ``workspaces`` end the work too, first."""
        self._client.ask("shutdown", workspaces=workspaces)


def _wire(spec: WorkloadSpec) -> dict[str, Any]:
    """Return the spec as JSON; a secret is never part of it."""
    return {
        "uid": spec.uid,
        "kind": spec.kind,
        "name": spec.name,
        "launch": spec.launch,
        "project": spec.project,
        "owner": spec.owner,
        "environment": spec.environment,
        "packages_of": spec.packages_of,
        "command": list(spec.command),
        "verbatim": spec.verbatim,
        "env": dict(spec.env),
        "resources": asdict(spec.resources),
        "devices": list(spec.devices),
        "mounts": [
            {
                "volume_uid": mount.volume_uid,
                "role": mount.role,
                "name": mount.name,
                "owner": mount.owner,
                "read_only": mount.read_only,
            }
            for mount in spec.mounts
        ],
        "port": spec.port,
        "probe": asdict(spec.probe) if spec.probe else None,
        "stop_grace_s": spec.stop_grace_s,
        "checkpoints": spec.checkpoints,
        "checkpoints_since": spec.checkpoints_since,
        "tells": spec.tells,
        "output": spec.output,
        "group": _group(spec) if spec.is_group else None,
        "retry": asdict(spec.retry) if spec.once else None,
        "serves": spec.serve.replicas if spec.serve is not None else None,
    }


def _group(spec: WorkloadSpec) -> dict[str, Any]:
    if not spec.once:
        raise InvalidSpec("Only what runs to its end can have several replicas.")
    return {
        "role": spec.groups[0].role,
        "replicas": spec.replicas,
        "roles": training.roles(spec.groups),
        "sizes": [
            asdict(group.resources or spec.resources)
            for group in spec.groups
            for _ in range(group.replicas)
        ],
        "framework": spec.framework,
    }


def _secrets(spec: WorkloadSpec) -> dict[str, Any]:
    return {
        "env": dict(spec.secret_env()),
        "files": checked(spec.secret_files()),
        "placed": list(spec.placed_files),
    }
