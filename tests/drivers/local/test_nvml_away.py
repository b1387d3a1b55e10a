# ruff: noqa: N802 - as the library calls them
"""NVML that stops answering, as while the driver is loaded anew: no news of the machine."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.drivers.local.gpus import NvmlSource


class NVMLError(Exception):
    """As the library's own."""


class Nvml:
    """A library of two GPUs, whose answers stop as told. ``lost``: indexes that can't be read."""

    NVMLError = NVMLError
    NVML_GPU_UTILIZATION_SAMPLES = 1

    def __init__(self) -> None:
        self.up = True
        self.uuids = ["GPU-a", "GPU-b"]
        self.lost: set[int] = set()
        self.kept: list[tuple[float, int]] | None = None  # of its use: when, and how much

    def nvmlInit(self) -> None:
        if not self.up:
            raise NVMLError

    def nvmlDeviceGetCount(self) -> int:
        self.nvmlInit()
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index in self.lost:
            raise NVMLError
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return self.uuids[handle]

    def nvmlDeviceGetName(self, _handle: int) -> str:
        return "NVIDIA H100"

    def nvmlDeviceGetMemoryInfo(self, _handle: int) -> Any:
        return SimpleNamespace(total=80 << 30, used=1 << 30)

    def nvmlDeviceGetUtilizationRates(self, _handle: int) -> Any:
        return SimpleNamespace(gpu=7)

    def nvmlDeviceGetSamples(self, _handle: int, _kind: int, _since: int) -> Any:
        if self.kept is None:  # a device that keeps none
            raise NVMLError
        samples = [
            SimpleNamespace(timeStamp=int(at * 1e6), sampleValue=SimpleNamespace(uiVal=value))
            for at, value in self.kept
        ]
        return 1, samples


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    made = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", made)  # type: ignore[arg-type]
    return made


def healthy(source: NvmlSource) -> dict[str, bool]:
    return {device.uuid: device.healthy for device in source.devices()}


def test_gpus_that_were_listed_are_told_as_unhealthy_while_nvml_is_away(nvml: Nvml) -> None:
    source = NvmlSource()
    assert healthy(source) == {"GPU-a": True, "GPU-b": True}
    nvml.up = False
    assert healthy(source) == {"GPU-a": False, "GPU-b": False}
    one = source.devices()[0]
    assert (one.memory_mib, one.memory_used_mib, one.utilisation) == (80 * 1024, None, None)
    nvml.up = True
    assert healthy(source) == {"GPU-a": True, "GPU-b": True}


def test_a_machine_whose_nvml_never_answered_has_no_gpus(nvml: Nvml) -> None:
    nvml.up = False
    assert NvmlSource().devices() == ()


def test_a_process_that_began_while_nvml_was_away_knows_the_gpus_as_soon_as_it_answers(
    nvml: Nvml,
) -> None:
    nvml.up = False
    source = NvmlSource()
    assert source.devices() == ()
    assert source.devices() == ()
    nvml.up = True
    assert healthy(source) == {"GPU-a": True, "GPU-b": True}


def test_one_gpu_that_can_not_be_read_is_told_and_one_that_is_not_listed_is_not(nvml: Nvml) -> None:
    source = NvmlSource()
    source.devices()
    nvml.lost = {1}
    assert healthy(source) == {"GPU-a": True, "GPU-b": False}
    assert healthy(source) == {"GPU-a": True, "GPU-b": False}
    nvml.uuids, nvml.lost = ["GPU-a"], set()
    assert healthy(source) == {"GPU-a": True}
    nvml.up = False
    assert healthy(source) == {"GPU-a": False}


def test_a_burst_between_two_looks_counts(nvml: Nvml) -> None:
    source, at = NvmlSource(), time.time()
    assert {device.utilisation for device in source.devices()} == {7}  # of the moment
    nvml.kept = [(at - 60, 100), *((at - age, 100 if age == 5 else 0) for age in range(9, 0, -1))]
    assert {device.utilisation for device in source.devices()} == {12}  # one second of nine
    nvml.kept = [(at - 60, 100)]
    assert {device.utilisation for device in source.devices()} == {7}
