"""Machine types, scale tiers and accelerators of AI Platform Training, as sizes of Berth.

What an installation says otherwise stands in ``BERTH_AI_PLATFORM``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_GIB = 1024


@dataclass(frozen=True)
class Machine:
    """What one replica has. ``accelerator`` "": any kind of GPU will do."""

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    accelerator: str = ""


# GiB of memory for each virtual CPU
_FAMILIES: Mapping[str, float] = {
    "n1-standard": 3.75,
    "n1-highmem": 6.5,
    "n1-highcpu": 0.9,
    "n2-standard": 4,
    "n2-highmem": 8,
    "n2-highcpu": 1,
    "c2-standard": 4,
    "e2-standard": 4,
    "e2-highmem": 8,
    "e2-highcpu": 1,
}
_FAMILY = re.compile(r"([a-z]\d-[a-z]+)-([1-9]\d{0,2})")
_A2: Mapping[str, tuple[int, int, int]] = {  # CPUs, GiB, GPUs
    "a2-highgpu-1g": (12, 85, 1),
    "a2-highgpu-2g": (24, 170, 2),
    "a2-highgpu-4g": (48, 340, 4),
    "a2-highgpu-8g": (96, 680, 8),
    "a2-megagpu-16g": (96, 1360, 16),
}
# Names from before machine types: type, GPUs, accelerator.
_OLDER: Mapping[str, tuple[str, int, str]] = {
    "standard": ("n1-standard-4", 0, ""),
    "large_model": ("n1-highmem-8", 0, ""),
    "complex_model_s": ("n1-highcpu-8", 0, ""),
    "complex_model_m": ("n1-highcpu-16", 0, ""),
    "complex_model_l": ("n1-highcpu-32", 0, ""),
    "standard_gpu": ("n1-standard-8", 1, "NVIDIA_TESLA_K80"),
    "complex_model_m_gpu": ("n1-standard-16", 4, "NVIDIA_TESLA_K80"),
    "complex_model_l_gpu": ("n1-standard-32", 8, "NVIDIA_TESLA_K80"),
    "standard_p100": ("n1-standard-8", 1, "NVIDIA_TESLA_P100"),
    "complex_model_m_p100": ("n1-standard-16", 4, "NVIDIA_TESLA_P100"),
    "standard_v100": ("n1-standard-8", 1, "NVIDIA_TESLA_V100"),
    "large_model_v100": ("n1-highmem-8", 1, "NVIDIA_TESLA_V100"),
    "complex_model_m_v100": ("n1-standard-16", 4, "NVIDIA_TESLA_V100"),
    "complex_model_l_v100": ("n1-standard-32", 8, "NVIDIA_TESLA_V100"),
}
ROLES = ("master", "worker", "parameterServer", "evaluator")
# Tier → role → how many of which machine type. CUSTOM says them itself.
TIERS: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "BASIC": {"master": (1, "n1-standard-4")},
    "STANDARD_1": {
        "master": (1, "n1-highcpu-8"),
        "worker": (4, "n1-highcpu-8"),
        "parameterServer": (3, "n1-standard-4"),
    },
    "PREMIUM_1": {
        "master": (1, "n1-highcpu-16"),
        "worker": (19, "n1-highcpu-16"),
        "parameterServer": (11, "n1-highmem-8"),
    },
    "BASIC_GPU": {"master": (1, "n1-standard-8")},
    "CUSTOM": {},
}
GPUS_OF_TIER: Mapping[str, int] = {"BASIC_GPU": 1}  # of any kind


@dataclass(frozen=True)
class Tables:
    """What an installation says of its own: ``BERTH_AI_PLATFORM``.

    ``runtimes``: runtime version, or version/Python version, → {"image": …} or {"environment": …}.
    """

    machines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    accelerators: Mapping[str, str] = field(default_factory=dict)
    runtimes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Tables:
        """Return them, or raise ValueError that says what is wrong."""
        if strange := sorted(set(said) - {"machines", "accelerators", "runtimes"}):
            message = f"there is no table {strange[0]!r}"
            raise ValueError(message)
        found = cls(**said)
        for name, size in found.machines.items():
            numbers = isinstance(size, dict) and all(
                isinstance(size.get(part), int | float) for part in ("cpu", "memory_gib")
            )
            if not numbers or set(size) != {"cpu", "memory_gib"}:
                message = f"machines: {name!r} is not {{cpu, memory_gib}}"
                raise ValueError(message)
        if not all(isinstance(kind, str) for kind in found.accelerators.values()):
            message = "accelerators: each stands for kinds of GPU, as text"
            raise ValueError(message)
        for name, runtime in found.runtimes.items():
            if not isinstance(runtime, dict) or set(runtime) - {"image", "environment"}:
                message = f"runtimes: {name!r} is not {{image}} or {{environment}}"
                raise ValueError(message)
        return found

    def machine(self, name: str) -> Machine | None:
        """Return what a machine type has; None: nobody knows it."""
        if size := self.machines.get(name):
            return Machine(round(size["cpu"] * 1000), round(size["memory_gib"] * _GIB))
        if name in _A2:
            cpus, gib, gpus = _A2[name]
            return Machine(cpus * 1000, gib * _GIB, gpus, "NVIDIA_TESLA_A100")
        if name in _OLDER:
            like, gpus, accelerator = _OLDER[name]
            under = self.machine(like)
            return under and Machine(under.cpu_milli, under.memory_mib, gpus, accelerator)
        family = _FAMILY.fullmatch(name)
        if family is None or family[1] not in _FAMILIES:
            return None
        cpus = int(family[2])
        return Machine(cpus * 1000, round(cpus * _FAMILIES[family[1]] * _GIB))

    def kinds_of(self, accelerator: str, known: Mapping[str, str]) -> str:
        """Return the kinds of GPU here that an accelerator stands for; "": none.

        ``known``: each kind here with its label. Where no table says so, those that carry the
        accelerator's own word: NVIDIA_TESLA_V100 is ``v100`` and ``v100-32``.
        """
        if accelerator in self.accelerators:
            return self.accelerators[accelerator]
        wanted = _words(accelerator) - {"nvidia", "tesla"}
        return ",".join(name for name in known if wanted <= _words(name))


def _words(name: str) -> set[str]:
    """Return the words of a name of a GPU, sizes without their unit: ``a100`` and ``80``."""
    return {word.removesuffix("gb") for word in re.split(r"[-_. ]", name.lower())}
