"""Real GPUs of this machine: what is told of them, and what a workload sees of them (C4)."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from runtime.drivers.local.gpus import NvmlSource
from runtime.protocol import Device
from runtime.spec import Resources
from tests.drivers.local.conftest import running
from tests.drivers.local.harness import MODES, PYTHON, Supervisor

pytestmark = [pytest.mark.gpu, pytest.mark.real]
ASKED = "uuid,index,name,memory.total"

# Counts devices, then fills 1 MiB of the first one's memory and reads it back, by the driver's
# own library: no toolkit is needed. Prints what it saw as one line of JSON.
CUDA = """
import ctypes, json, os
cuda = ctypes.CDLL("libcuda.so.1")
def ok(code, what):
    if code:
        raise SystemExit(f"{what}: CUDA error {code}")
def uuid_of(device):
    raw = (ctypes.c_ubyte * 16)()
    ok(cuda.cuDeviceGetUuid(raw, device), "cuDeviceGetUuid")
    text = bytes(raw).hex()
    return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
seen = {name: os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")}
count = ctypes.c_int()
if cuda.cuInit(0):  # there is none, or none that may be opened
    print(json.dumps({**seen, "count": 0}))
    raise SystemExit
ok(cuda.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount")
devices = []
for index in range(count.value):
    device = ctypes.c_int()
    ok(cuda.cuDeviceGet(ctypes.byref(device), index), "cuDeviceGet")
    devices.append(device)
context, memory, size = ctypes.c_void_p(), ctypes.c_uint64(), 1 << 20
ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), devices[0]), "cuDevicePrimaryCtxRetain")
ok(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
ok(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size)), "cuMemAlloc")
ok(cuda.cuMemsetD8_v2(memory, ctypes.c_ubyte(0xA5), ctypes.c_size_t(size)), "cuMemsetD8")
back = ctypes.create_string_buffer(size)
ok(cuda.cuMemcpyDtoH_v2(back, memory, ctypes.c_size_t(size)), "cuMemcpyDtoH")
ok(cuda.cuMemFree_v2(memory), "cuMemFree")
ok(cuda.cuDevicePrimaryCtxRelease_v2(devices[0]), "cuDevicePrimaryCtxRelease")
print(json.dumps({
    **seen,
    "count": count.value,
    "uuids": [uuid_of(device) for device in devices],
    "filled": back.raw == b"\\xa5" * size,
}))
"""


@pytest.fixture(scope="module")
def devices() -> tuple[Device, ...]:
    """What NVML tells; a machine without GPUs has nothing to test."""
    found = NvmlSource().devices()
    if not found:
        pytest.skip("this machine has no NVIDIA GPU that NVML can read")
    return found


@pytest.fixture(params=MODES)
def machine(devices: tuple[Device, ...], request: pytest.FixtureRequest) -> Iterator[Supervisor]:
    """A supervisor, started only where there are GPUs."""
    yield from running(request.param)


def smi(fields: str) -> list[list[str]]:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]


def told_by(machine: Supervisor, given: tuple[str, ...]) -> dict[str, object]:
    """Run the CUDA program with these devices and return what it printed."""
    size = Resources(cpu_milli=1000, memory_mib=4096, gpus=len(given), pids=200)
    spec = machine.spec((PYTHON, "-I", "-S", "-c", CUDA), devices=given, resources=size)
    ended = machine.ended(spec)
    said = machine.log(spec)
    assert ended.exit_code == 0, said
    told: dict[str, object] = json.loads(said.splitlines()[-1])
    return told


def test_the_facts_are_those_of_nvidia_smi(devices: tuple[Device, ...]) -> None:
    told = [[d.uuid, str(d.index), d.name, str(d.memory_mib)] for d in devices]
    assert told == smi(ASKED)
    assert all(device.healthy for device in devices)


def test_usage_is_within_what_the_device_has(devices: tuple[Device, ...]) -> None:
    for device in devices:
        assert device.memory_used_mib is None or 0 <= device.memory_used_mib <= device.memory_mib
        assert device.utilisation is None or 0 <= device.utilisation <= 100


def test_a_workload_sees_exactly_the_device_it_was_given_and_can_use_it(
    devices: tuple[Device, ...], machine: Supervisor
) -> None:
    for device in devices:
        told = told_by(machine, (device.uuid,))
        assert told == {
            "CUDA_VISIBLE_DEVICES": device.uuid,
            "NVIDIA_VISIBLE_DEVICES": device.uuid,
            "count": 1,
            "uuids": [device.uuid],
            "filled": True,
        }


def test_c4_a_workload_that_was_given_none_sees_none(machine: Supervisor) -> None:
    told = told_by(machine, ())
    assert told == {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void", "count": 0}
