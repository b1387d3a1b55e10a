"""Which size is recommended, and the request that a page begins with."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.options import MODEL_SERVERS, ClusterOptions
from serving import examples
from serving.choices import Framework
from serving.models import Endpoint, Model, ModelVersion
from serving.runtime_spec import _of_image
from serving.runtimes import RUNTIMES, runtime_of, runtimes_for
from serving.sizing import GIB, GpuKind, recommended
from volumes.models import Volume

L4, H100 = GpuKind("l4", "L4", 24 * GIB), GpuKind("h100-80", "H100", 80 * GIB)


@pytest.mark.parametrize(
    ("framework", "gib", "wanted"),
    [
        ("sklearn", 0.1, (0, "")),
        ("lightgbm", 30, (0, "")),
        ("onnx", 1, (0, "")),
        ("pytorch", 10, (1, "l4")),
        ("huggingface", 14, (1, "l4")),
        ("huggingface", 30, (1, "h100-80")),
        ("huggingface", 140, (4, "h100-80")),
        ("triton", 0, (1, "l4")),
    ],
)
def test_a_size_follows_from_framework_and_weights(
    framework: str, gib: float, wanted: tuple[int, str]
) -> None:
    size = recommended(framework, round(gib * 2**30), [H100, L4])
    assert (size.gpus, size.kind) == wanted
    assert size.fits
    assert size.why


def test_what_fits_nowhere_is_said() -> None:
    size = recommended("huggingface", 2**40, [L4])
    assert not size.fits
    assert "1024.0 GiB" in size.why


@given(st.sampled_from(Framework.values), st.integers(0, 2**45), st.lists(st.integers(0, 2**18)))
def test_any_model_gets_a_size_that_a_form_takes(framework: str, size: int, mib: list[int]) -> None:
    kinds = [GpuKind(f"kind-{n}", f"Kind {n}", one) for n, one in enumerate(mib)]
    told = recommended(framework, size, kinds)
    assert 0 <= told.gpus <= 8
    assert told.cpu_milli >= 1000
    assert told.memory_mib % GIB == 0
    if told.kind and told.fits:
        memory = next(one.memory_mib for one in kinds if one.name == told.kind)
        assert memory * told.gpus * 2**20 >= size


IRIS = {"inputs": [{"name": "input", "datatype": "FP64", "shape": [-1, 4]}]}
COLUMNS = {
    "inputs": [
        {"name": "input", "datatype": "FP64", "shape": [-1, 2],
         "parameters": {"columns": ["age", "income"]}},
    ]
}  # fmt: skip
SEVERAL = {
    "inputs": [
        {"name": "ids", "datatype": "INT64", "shape": [-1, 3]},
        {"name": "text", "datatype": "BYTES", "shape": [-1]},
    ]
}
PICTURE = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 3, 224, 224]}]}


@pytest.mark.parametrize(
    ("signature", "instance"),
    [
        (IRIS, [0.0, 0.0, 0.0, 0.0]),
        (COLUMNS, {"age": 0.0, "income": 0.0}),
        (SEVERAL, {"ids": [0, 0, 0], "text": "text"}),
    ],
)
def test_an_instance_is_made_of_what_goes_in(signature: Any, instance: Any) -> None:
    v1, v2 = examples.examples(("v1", "v2"), signature, "iris")
    assert json.loads(v1.body) == {"instances": [instance]}
    assert v1.path == "v1/models/iris:predict"
    for tensor in json.loads(v2.body)["inputs"]:
        count = 1
        for length in tensor["shape"]:
            count *= length
        assert len(tensor["data"]) == count


def test_a_picture_is_no_page_of_zeros() -> None:
    v1, v2 = examples.examples(("v1", "v2"), PICTURE, "m")
    assert max(len(v1.body), len(v2.body)) < 2000
    assert examples.is_cut(PICTURE)
    assert not examples.is_cut(IRIS)


@given(
    st.dictionaries(st.text(max_size=8), st.integers() | st.text() | st.lists(st.integers())),
    st.lists(st.integers(-3, 5000) | st.text(max_size=3), max_size=5),
)
def test_whatever_a_signature_says_there_is_an_example(odd: Any, shape: Any) -> None:
    told = {**odd, "name": "x", "shape": shape}
    for one in examples.examples(("v1", "v2"), {"inputs": [told, "nonsense", odd]}, "m"):
        json.loads(one.body)


def test_code_carries_the_body_whatever_quotes_it_has(tmp_path: Any) -> None:
    """What is shown for a shell and for Python is run, with curl and requests that only tell."""
    body = json.dumps({"instances": ['it\'s "so"', None, True, "日本語", "$HOME `x`"]})
    sends = examples.Example("v1", "POST", "v1/models/m:predict", body)
    curl = examples.as_curl("http://h/e/p/n", sends)
    (tmp_path / "curl").write_text(
        '#!/bin/sh\nfor one in "$@"; do last="$one"; done\necho "$last"\n'
    )
    (tmp_path / "curl").chmod(0o700)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "BERTH_KEY": "k"}
    told = subprocess.run(["/bin/sh", "-c", curl], env=env, capture_output=True, check=True)
    assert json.loads(told.stdout) == json.loads(body)
    (tmp_path / "requests.py").write_text(
        "import json\n"
        "class Answer:\n"
        "    def __init__(self, said): self.said = said\n"
        "    def raise_for_status(self): pass\n"
        "    def json(self): return json.dumps(self.said)\n"
        "def post(url, headers, json, timeout): return Answer([url, json])\n"
    )
    code = examples.as_python("http://h/e/p/n", sends)
    run = [sys.executable, "-c", code]
    told = subprocess.run(run, env=env, cwd=tmp_path, capture_output=True, check=True)
    assert json.loads(told.stdout) == ["http://h/e/p/n/v1/models/m:predict", json.loads(body)]


def test_a_server_of_its_own_has_no_example_but_its_address() -> None:
    (one,) = examples.examples((), {}, "m")
    assert (one.method, one.path, one.body) == ("GET", "", "")
    assert "-d" not in examples.as_curl("http://h/e/p/n", one)


def test_each_model_server_of_clusters_has_a_word_that_operators_may_name() -> None:
    assert [one.image for one in RUNTIMES if one.image] == list(MODEL_SERVERS)


@pytest.mark.parametrize(
    ("framework", "gpus", "command", "args", "health"),
    [
        (
            "triton",
            1,
            ("tritonserver", "--model-repository=/volumes/models/big", "--http-port=8080"),
            ("--log-verbose=1",),
            "/v2/health/ready",
        ),
        (
            "huggingface",
            2,
            ("python3", "-m", "vllm.entrypoints.openai.api_server"),
            (
                *("--model", "/volumes/models/big", "--served-model-name", "big"),
                *("--port", "8080", "--tensor-parallel-size", "2", "--log-verbose=1"),
            ),
            "/health",
        ),
    ],
)
def test_servers_of_others_are_told_model_port_and_gpus(
    framework: str, gpus: int, command: tuple[str, ...], args: tuple[str, ...], health: str
) -> None:
    """What is rendered; neither was run, since it needs a GPU and an image of its makers."""
    volume = Volume(name="models", kind="data")
    version = ModelVersion(
        model=Model(name="big"), name="v1", framework=framework, volume=volume, folder="big"
    )
    row = Endpoint(model="big/v1", version=version, gpus=gpus, port=8080, args=["--log-verbose=1"])
    runtime = runtime_of(row)
    images = ClusterOptions(serving_images={runtime.image: "registry.example/own:1"})
    found = _of_image(row, runtime, images)
    assert found == ("registry.example/own:1", command, args)
    assert (runtime.health, runtime.needs_gpu, runtime.is_tested) == (health, True, False)


def test_a_lone_file_is_no_repository_of_models() -> None:
    for framework in (Framework.ONNX, Framework.TENSORFLOW, Framework.PYTORCH):
        assert [one.word for one in runtimes_for(framework)] != []
        assert "triton" not in [one.word for one in runtimes_for(framework)]
