"""A17: what an exporter's text says by which words is data, and a text is believed only so far."""

from typing import Any

import pytest

from clusters.accelerators import _known, known_of
from metrics.sampling import together
from runtime.use_sources import MAX_SERIES, DeviceUse, Figures, WrongFieldError, figures, parse

GOOD = {"pods": "app=exporter", "port": "9400", "utilisation": "busy", "memory": "used"}
POD = ("berth-a", "ws-1-0")
LABELS = 'namespace="berth-a",pod="ws-1-0"'


def read(text: str, devices: int = 1, **fields: str) -> dict[str, float]:
    found = figures(text.splitlines(), parse({**GOOD, **fields}))
    return summed(found.get(POD, Figures({}, {})), devices)


def summed(found: Figures, devices: int) -> dict[str, float]:
    told = [
        DeviceUse(str(d), "", found.utilisation.get(d), found.memory_mib.get(d))
        for d in found.devices
    ]
    return together(told, devices)


# One line as each exporter of the list writes it.
SAID = {
    "nvidia.com/gpu": 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",device="nvidia0",modelName="H100",'
    'Hostname="n1",container="main",%s} 37\nDCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",%s} 2048',
    "nvidia.com/mig-1g.10gb": 'DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",GPU_I_ID="7",%s} 0.37\n'
    'DCGM_FI_DEV_FB_USED{UUID="GPU-1",GPU_I_ID="7",%s} 2048',
    "amd.com/gpu": 'gpu_gfx_activity{gpu_id="2",gpu_partition_id="0",serial_number="69",%s} 37\n'
    'gpu_used_vram{gpu_id="2",gpu_partition_id="0",serial_number="69",%s} 2147.483648',
    "gpu.intel.com/i915": 'xpum_engine_ratio{uuid="u1",vendor="Intel(R)",%s} 0.37\n'
    'xpum_memory_used_bytes{uuid="u1",%s} 2.147483648e+09',
    "google.com/tpu": 'duty_cycle{accelerator_id="1-4",make="cloud-tpu",model="tpu7x",%s} 37\n'
    'memory_used{accelerator_id="1-4",%s} 2.147483648e+09\n'
    'duty_cycle_node{accelerator_id="1-4",%s} 99',
}


@pytest.mark.parametrize("resource", SAID)
def test_a17_the_words_of_each_known_exporter_are_understood(resource: str) -> None:
    source = parse(known_of(resource))
    labels = f'{source.namespace_label}="berth-a",{source.pod_label}="ws-1-0"'
    text = SAID[resource].replace("%s", labels)
    found = figures(text.splitlines(), source)
    assert summed(found[POD], 1) == {"gpu_utilisation": 37.0, "gpu_memory_mib": 2048.0}


def test_every_known_source_is_one_that_an_operator_could_write() -> None:
    assert len(_known()) >= 5
    for fields in _known().values():
        parse(fields)
    assert known_of("example.org/npu") == {}


def test_figures_of_all_devices_are_put_together() -> None:
    text = f'busy{{device="0",{LABELS}}} 20\nbusy{{device="1",{LABELS}}} 40\nused{{device="0",{LABELS}}} 5'
    assert read(text, 2) == {"gpu_utilisation": 30.0}  # the memory of one is unknown
    assert read(text, 3) == {}


def test_a_metric_may_be_one_of_several_by_its_labels() -> None:
    text = (
        f'busy{{type="copy",device="0",{LABELS}}} 90\nbusy{{type="compute",device="0",{LABELS}}} 7'
    )
    assert read(text, utilisation='busy{type="compute"}') == {"gpu_utilisation": 7.0}


@pytest.mark.parametrize(
    "value",
    ["NaN", "+Inf", "-Inf", "-1", "100.5", "1e308", "1e999", "9" * 400, "", "abc", "0x10"],
)
def test_e19_a_value_that_cannot_be_is_unknown_and_never_0(value: str) -> None:
    assert read(f'busy{{device="0",{LABELS}}} {value}') == {}


def test_e19_one_value_that_cannot_be_makes_a_whole_device_unknown() -> None:
    text = f'busy{{device="0",{LABELS}}} 20\nbusy{{device="0",{LABELS}}} NaN'
    assert read(text) == {}
    assert read(text + f'\nbusy{{device="0",{LABELS}}} 30') == {}


@pytest.mark.parametrize(
    "line",
    [
        'busy{device="0"} 50',
        'busy{device="0",pod="ws-1-0"} 50',
        'busy{device="0",namespace="berth-b",pod="ws-1-0"} 50',  # another tenant's
        'busy{device="0",namespace="berth-a",pod="ws-1-0 "} 50',
        f"busy{{{LABELS}}} 50",  # which device?
        f'busy{{device="0",{LABELS} 50',
        f'busy{{device="0",{LABELS}}}',
        f'busybody{{device="0",{LABELS}}} 50',
        f'busy{{device="{"x" * 5000}",{LABELS}}} 50',
        f'busy{{device="0",{LABELS},pod="ws-2-0"}} 50\x00',
        "busy 50",
        "\x00" * 100,
        "{}" * 100,
    ],
)
def test_a_line_that_names_nothing_of_ours_is_passed_over(line: str) -> None:
    assert read(line) == {}
    good = f'busy{{device="0",{LABELS}}} 8'
    assert read(f"{line}\n{good}") == {"gpu_utilisation": 8.0}


def test_a_text_with_too_many_devices_is_refused() -> None:
    lines = (f'busy{{device="{n}",{LABELS}}} 1' for n in range(MAX_SERIES + 1))
    with pytest.raises(ValueError, match="too many"):
        figures(lines, parse(GOOD))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pods", ""),
        ("pods", "app"),
        ("pods", "app=a,b in (c)"),
        ("port", "0"),
        ("port", "70000"),
        ("port", "80/x"),
        ("path", "metrics"),
        ("path", "/../secret"),
        ("path", "/metrics?x=1"),
        ("path", "//evil.example"),
        ("path", "/a@b"),
        ("namespace", "Kube"),
        ("namespace", "a/b"),
        ("utilisation", "busy{"),
        ("utilisation", 'busy{type=~".*"}'),
        ("utilisation", "sum(busy)"),
        ("utilisation_unit", "parts"),
        ("memory_unit", "TB"),
        ("device_labels", ""),
        ("pod_label", "pod name"),
        ("host", "evil.example"),
    ],
)
def test_a_source_says_only_what_is_on_the_list(field: str, value: str) -> None:
    with pytest.raises(WrongFieldError) as error:
        parse({**GOOD, field: value})
    assert error.value.field == field


@pytest.mark.parametrize("lacking", ["pods", "port"])
def test_a_source_without_a_place_is_refused(lacking: str) -> None:
    said: dict[str, Any] = {name: value for name, value in GOOD.items() if name != lacking}
    with pytest.raises(WrongFieldError) as error:
        parse(said)
    assert error.value.field == lacking


def test_a_source_without_figures_is_refused() -> None:
    with pytest.raises(WrongFieldError):
        parse({"pods": "app=x", "port": "1"})
