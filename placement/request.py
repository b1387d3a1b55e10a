"""What decides where work may go and whether it starts: all that placement knows of work."""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.protocol import Resources


def names_in(text: str) -> tuple[str, ...]:
    """Return the kinds of GPU that a text names, each once: ``a100, h100``; none: any kind."""
    names = (name.strip() for name in text.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


@dataclass(frozen=True)
class DeviceRequest:
    """Devices that must be on one node: ``count`` of one of ``kinds``, the first liked most.

    No kind named: a whole device of any kind. A part of a device is a kind of its own.
    """

    count: int = 0
    kinds: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The kinds as a size names them."""
        return ",".join(self.kinds)


@dataclass(frozen=True)
class Request:
    """What one workload asks of a cluster. ``work_class``: what pools are reserved for."""

    work_class: str
    devices: DeviceRequest = field(default_factory=DeviceRequest)
    cpu_milli: int = 0
    memory_mib: int = 0
    pool: str = ""
    network: str = ""
    replicas: int = 1  # each of this size; none of them starts without the others

    @classmethod
    def of_size(
        cls,
        work_class: str,
        size: Resources,
        *,
        pool: str = "",
        network: str = "",
        replicas: int = 1,
    ) -> Request:
        devices = DeviceRequest(size.gpus, names_in(size.gpu_flavor) if size.gpus else ())
        cpu_milli, memory_mib = size.cpu_milli, size.memory_mib
        return cls(work_class, devices, cpu_milli, memory_mib, pool, network, replicas)

    @property
    def size(self) -> Resources:
        """What one replica has."""
        return Resources(self.cpu_milli, self.memory_mib, self.devices.count, self.devices.text)

    @property
    def total(self) -> Resources:
        """What all replicas take together."""
        return self.size.times(self.replicas)
