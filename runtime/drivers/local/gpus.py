"""The GPUs of this machine, read in the portal's own process; the supervisor needs none of it."""

import hashlib
import logging
import math
import re
import threading
import time
from dataclasses import replace
from typing import Any, Protocol

from runtime.protocol import Device
from runtime.use_sources import Holder

log = logging.getLogger(__name__)
_MIB = 1024 * 1024
_SPAN_S = 10.0  # as often as figures of work are taken: what lies between two looks counts, too
_SCRIPT = re.compile(r"(?P<count>\d+)x(?P<name>.+)-(?P<gib>\d+)")


class GpuSource(Protocol):
    """Where GPU facts come from."""

    def devices(self) -> tuple[Device, ...]:
        """Return every GPU with what is known of it now."""


class NvmlSource:
    """Facts from NVML. A GPU that can't be read is told as unhealthy, never left out.

    That NVML does not answer is no news of the machine: the GPUs that it listed before are there.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nvml: Any = None
        self._known: tuple[Device, ...] = ()  # as listed last

    def _open(self) -> Any:
        if self._nvml is None:
            import pynvml

            pynvml.nvmlInit()
            self._nvml = pynvml
        return self._nvml

    def devices(self) -> tuple[Device, ...]:
        with self._lock:
            try:
                nvml = self._open()
                count = nvml.nvmlDeviceGetCount()
            except Exception as problem:  # noqa: BLE001 - no library, no driver, or it was reloaded
                log.debug("no GPUs: %s", problem)
                self._nvml = None
                return tuple(_unread(device) for device in self._known)
            found = [self._device(nvml, index) for index in range(count)]
            read = [device for device in found if device]
            self._known = (*read, *self._unreadable(found, {device.uuid for device in read}))
            return self._known

    def _unreadable(self, found: list[Device | None], read: set[str]) -> list[Device]:
        """Return what was known of those that are counted and can't be read now."""
        lost = {index for index, device in enumerate(found) if device is None}
        return [_unread(d) for d in self._known if d.index in lost and d.uuid not in read]

    def _device(self, nvml: Any, index: int) -> Device | None:
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid, name = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
        except nvml.NVMLError as problem:
            log.warning("GPU %d can't be read: %s", index, problem)
            return None
        memory = _try(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        return Device(
            uuid=_text(uuid),
            index=index,
            name=_text(name),
            memory_mib=memory.total // _MIB if memory else 0,
            memory_used_mib=memory.used // _MIB if memory else None,
            utilisation=self._utilisation(nvml, handle),
            healthy=memory is not None,
        )

    def _utilisation(self, nvml: Any, handle: Any) -> int | None:
        """Return the mean of the last ten seconds in percent, or of a moment if no more is kept.

        The rate of the moment is of a sixth of a second to one second, by the device: who computes
        in short bursts would mostly be met between two of them.
        """
        since = int((time.time() - _SPAN_S) * 1e6)
        kind = nvml.NVML_GPU_UTILIZATION_SAMPLES
        kept = _try(nvml, lambda: nvml.nvmlDeviceGetSamples(handle, kind, since))
        found = [
            one.sampleValue.uiVal for one in (kept[1] if kept else ()) if one.timeStamp > since
        ]
        if found:
            return min(100, math.ceil(sum(found) / len(found)))
        rates = _try(nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        return rates.gpu if rates else None


def _unread(device: Device) -> Device:
    return replace(device, memory_used_mib=None, utilisation=None, healthy=False)


def _try(nvml: Any, read: Any) -> Any:
    try:
        return read()
    except nvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


class SimulatedGpus:
    """GPUs that only a setting says are there. ``2xH100-80``: two of 80 GiB.

    Nothing can use them; what they would do, ``played`` tells of each that somebody holds.
    """

    def __init__(self, script: str) -> None:
        found: list[Device] = []
        for part in filter(None, (part.strip() for part in script.split(","))):
            match = _SCRIPT.fullmatch(part)
            if match is None:
                raise ValueError(f"simulated GPUs look like 2xH100-80, not {part!r}")
            for _ in range(int(match["count"])):
                index = len(found)
                found.append(
                    Device(
                        uuid=f"GPU-simulated-{index:04d}",
                        index=index,
                        name=f"NVIDIA {match['name']}",
                        memory_mib=int(match["gib"]) * 1024,
                        simulated=True,
                    )
                )
        self._devices = tuple(found)

    def devices(self) -> tuple[Device, ...]:
        return self._devices


_BURST_S, _CYCLE_S = 60.0, 150.0
_COMPUTING = frozenset({"job"})


def played(device: Device, holder: Holder | None, at: float | None = None) -> Device:
    """Return a simulated device as its holder would use it; always the same at the same moment.

    Jobs compute. Of the rest one half computes in bursts, as people do who try things; the other
    holds its GPU and leaves it alone.
    """
    if holder is None:
        return replace(device, utilisation=0, memory_used_mib=0)
    moment = time.time() if at is None else at
    seed = int.from_bytes(hashlib.sha256(holder.uid.encode()).digest()[:4], "big")
    phase, wobble = moment + seed % 10_000, round(4 * math.sin(moment / 37 + seed))
    if holder.kind in _COMPUTING:
        busy, memory = 93 + wobble, 0.82
    elif seed % 2 == 0:
        busy, memory = 0, 0.31
    elif phase % _CYCLE_S < _BURST_S:
        busy, memory = 72 + wobble, 0.55
    else:
        busy, memory = 1, 0.55
    return replace(device, utilisation=busy, memory_used_mib=int(device.memory_mib * memory))


def gpu_source(simulated: str) -> GpuSource:
    """Return the simulated GPUs that a setting names, else NVML's."""
    return SimulatedGpus(simulated) if simulated else NvmlSource()
