"""A trainingInput of AI Platform Training: read safely, translated by name, nothing dropped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.errors import Invalid
from jobs.ai_platform.documents import MAX_BYTES, TRAINING, leaves, read
from jobs.ai_platform.machines import TIERS, Machine, Tables
from jobs.ai_platform.sheet import Here
from jobs.ai_platform.translation import translate

FILES = Path(__file__).parent / "training_input"
FIELDS = frozenset({"framework", "parameter_servers"})
TABLES = Tables.of(
    {
        "accelerators": {"NVIDIA_TESLA_V100": "h100-80"},
        "runtimes": {"2.10": {"environment": "tf"}, "2.11/3.7": {"image": "registry/tf:2.11"}},
    }
)


def here(*, images: bool = True, machine: bool = True, tables: Tables = TABLES) -> Here:
    return Here(tables, {"h100-80": "H100", "v100": "V100"}, images, machine, FIELDS)


def lines(asked: dict[str, Any], place: Here | None = None, **more: Any) -> dict[str, Any]:
    found = translate(asked, place or here(), **more)
    return {line.field: line for line in found.lines}


def test_the_file_of_a_package_becomes_one_job() -> None:
    document = read((FILES / "config.yaml").read_text())
    found = translate(document["trainingInput"], here(), package="p1")
    assert not found.refused
    assert found.said == {
        "cpu_milli": 8000,
        "memory_mib": 30 * 1024,
        "gpus": 2,
        "gpu_flavor": "h100-80",
        "command": ["python3", "-m", "trainer.task"],
        "args": [
            *("--epochs", "3", "--learning-rate=0.01", "--job-dir", "gs://team-bucket/jobs/mnist"),
        ],
        "code": "package:p1",
        "environment": "tf",
        "replicas": 1,
        "time_limit_minutes": 121,
    }
    assert document["labels"] == {"team": "vision"}
    told = [line.field for line in found.lines if line.field]
    assert told == [path for path, _value in leaves(document["trainingInput"])]


def test_the_file_of_a_container_becomes_replicas_of_one_size() -> None:
    found = translate(read((FILES / "distributed.yaml").read_text())["trainingInput"], here())
    assert not found.refused
    said = found.said
    assert (said["image"], said["replicas"]) == ("registry.example.org/team/tensorflow:2.11", 3)
    assert (said["framework"], said["parameter_servers"]) == ("tensorflow", 1)
    assert (said["cpu_milli"], said["memory_mib"]) == (8000, 7373)
    assert (said["server_cpu_milli"], said["server_memory_mib"]) == (4000, 15 * 1024)
    assert said["args"] == ["--steps", "100", "--job-dir", "gs://team-bucket/jobs/distributed"]
    assert "command" not in said


def test_c19_an_evaluator_is_the_last_of_the_replicas() -> None:
    asked = {
        "masterType": "n1-standard-4",
        "workerCount": 2,
        "evaluatorCount": 1,
        "evaluatorType": "n1-highmem-8",
        "pythonModule": "trainer.task",
    }
    found = translate(asked, here(images=False))
    assert not found.refused
    said = found.said
    assert (said["replicas"], said["evaluator"], said["framework"]) == (4, True, "tensorflow")
    assert (said["cpu_milli"], said["memory_mib"]) == (8000, 52 * 1024)
    torch = {**asked, "masterConfig": {"imageUri": "example/pytorch:2"}}
    assert "evaluatorCount" in translate(torch, here()).refused


def test_c19_the_file_of_a_search_in_a_network_is_taken_whole() -> None:
    document = read((FILES / "search.yaml").read_text())
    found = translate(document["trainingInput"], here())
    assert not found.refused
    assert found.said == {
        "cpu_milli": 8000,
        "memory_mib": 52 * 1024,
        "gpus": 1,
        "gpu_flavor": "h100-80",
        "replicas": 4,
        "framework": "tensorflow",
        "image": "registry.example.org/team/recommender:7",
        "args": [
            *("--embedding", "64"),
            *(
                f"--{name}=${{trialParameters.{name}}}"
                for name in ("rate", "depth", "batch", "loss")
            ),
        ],
        "network": "fabric",
        "time_limit_minutes": 1440,
    }
    assert found.search is not None
    said = dict(found.search.said)
    rate, depth, batch, loss = said.pop("parameters")
    assert said == {
        "algorithm": "tpe",
        "objective": "maximize",
        "metric": "recall",
        "trials_max": 12,
        "parallel": 3,
        "failed_max": 2,
        "early_stopping": True,
    }
    assert rate == {"name": "rate", "type": "double", "min": 1e-4, "max": 0.1, "log": True}
    assert depth == {"name": "depth", "type": "int", "min": 2.0, "max": 9.0}
    assert batch == {"name": "batch", "type": "categorical", "values": ["64", "128", "512"]}
    assert loss == {"name": "loss", "type": "categorical", "values": ["bpr", "warp"]}
    told = {line.field: line.becomes for line in found.lines}
    nothing = {"region", "enableWebAccess", "scheduling.priority", "masterConfig.diskConfig"}
    assert {field for field, becomes in told.items() if becomes == "nothing"} == nothing


def test_c19_each_field_without_a_counterpart_is_refused_by_its_name() -> None:
    found = translate(read((FILES / "refused.yaml").read_text())["trainingInput"], here())
    assert set(found.refused) == {
        "masterConfig.tpuTfVersion",
        "workerType",
        "workerConfig.imageUri",
        "workerConfig.containerCommand",
        "evaluatorCount",
        "evaluatorConfig.containerArgs",
        "packageUris",
        "scheduling.maxWaitTime",
        "encryptionConfig.kmsKeyName",
        "serviceAccount",
        "hyperparameters.resumePreviousJobId",
        "hyperparameters.params[0].scaleType",
    }


@pytest.mark.parametrize("tier", [tier for tier in TIERS if tier != "CUSTOM"])
def test_each_tier_is_so_many_replicas(tier: str) -> None:
    found = translate({"scaleTier": tier, "pythonModule": "a.b"}, here())
    assert not found.refused
    workers = TIERS[tier].get("worker", (0, ""))[0]
    assert found.said["replicas"] == 1 + workers
    assert found.said["gpus"] == (tier == "BASIC_GPU")
    assert "gpu_flavor" not in found.said or found.said["gpu_flavor"] == ""


def test_an_accelerator_is_found_by_its_own_word_and_refused_where_none_has_it() -> None:
    plain = here(tables=Tables())
    asked: Any = {"scaleTier": "CUSTOM", "masterType": "n1-standard-4", "pythonModule": "a"}
    for wanted, kinds in (("NVIDIA_TESLA_V100", "v100"), ("NVIDIA_H100_80GB", "h100-80")):
        asked["masterConfig"] = {"acceleratorConfig": {"count": 1, "type": wanted}}
        assert translate(asked, plain).said["gpu_flavor"] == kinds
    asked["masterConfig"] = {"acceleratorConfig": {"count": 1, "type": "NVIDIA_TESLA_T4"}}
    refused = translate(asked, plain).refused
    assert "h100-80, v100" in refused["masterConfig.acceleratorConfig.type"]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"serviceAccount": "a@b"}, "serviceAccount"),
        ({"encryptionConfig": {"kmsKeyName": "k"}}, "encryptionConfig.kmsKeyName"),
        ({"evaluatorCount": 1}, "evaluatorCount"),
        ({"masterType": "standard", "evaluatorCount": 2}, "evaluatorCount"),
        (
            {"masterType": "standard", "evaluatorCount": 1, "evaluatorConfig": {"imageUri": "a"}},
            "evaluatorConfig.imageUri",
        ),
        ({"packageUris": ["gs://b/p.tar.gz"]}, "packageUris"),
        ({"scheduling": {"maxWaitTime": "5s"}}, "scheduling.maxWaitTime"),
        ({"scheduling": {"maxRunningTime": "2h"}}, "scheduling.maxRunningTime"),
        ({"scaleTier": "BASIC_TPU"}, "scaleTier"),
        ({"scaleTier": "CUSTOM"}, "masterType"),
        ({"scaleTier": "BASIC", "workerCount": 2}, "workerCount"),
        ({"masterType": "x9-odd-1"}, "masterType"),
        ({"pythonModule": ""}, "pythonModule"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(asked: dict[str, Any], field: str) -> None:
    found = translate({"pythonModule": "a.b", **asked}, here())
    assert field in found.refused
    assert found.refused[field].endswith((".", ")")) or ":" in found.refused[field]


def test_an_image_is_refused_where_nothing_runs_images() -> None:
    asked = {"masterConfig": {"imageUri": "a/b:1"}}
    assert "masterConfig.imageUri" in translate(asked, here(images=False)).refused
    asked = {"pythonModule": "a.b", "runtimeVersion": "9.9"}
    assert "runtimeVersion" in translate(asked, here(machine=False)).refused
    asked |= {"runtimeVersion": "2.11", "pythonVersion": "3.7"}
    assert translate(asked, here()).said["image"] == "registry/tf:2.11"


def test_every_field_that_is_known_is_told_or_refused() -> None:
    """None is dropped in silence, whatever else is said."""

    def filled(shape: Any) -> Any:
        if isinstance(shape, list):
            return [filled(one) for one in shape]
        if isinstance(shape, dict):
            return {name: filled(inner) for name, inner in shape.items()}
        return {"text": "word", "count": 1, "flag": True}.get(shape, ["word"])  # type: ignore[arg-type]

    asked = {name: filled(shape) for name, shape in TRAINING.items()}
    for tier in (*TIERS, "odd"):
        told = lines({**asked, "scaleTier": tier})
        for path, _value in leaves(asked):
            assert any(path == one or path.startswith(f"{one}.") for one in told if one), path


def test_replicas_of_different_kinds_of_gpu_are_refused() -> None:
    gpu = {"acceleratorConfig": {"count": 1, "type": "NVIDIA_TESLA_V100"}}
    other = {"acceleratorConfig": {"count": 1, "type": "NVIDIA_H100_80GB"}}
    asked = {
        "masterType": "standard",
        "workerCount": 2,
        "workerType": "standard",
        "pythonModule": "a",
        "masterConfig": gpu,
        "workerConfig": other,
    }
    plain = here(tables=Tables())
    assert "workerConfig.acceleratorConfig.type" in translate(asked, plain).refused
    assert not translate({**asked, "workerConfig": gpu}, plain).refused


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("n1-standard-4", Machine(4000, 15360)),
        ("n1-highcpu-16", Machine(16000, 14746)),
        ("a2-highgpu-2g", Machine(24000, 174080, 2, "NVIDIA_TESLA_A100")),
        ("complex_model_m_v100", Machine(16000, 61440, 4, "NVIDIA_TESLA_V100")),
    ],
)
def test_machine_types_are_sizes_and_operators_say_others(name: str, size: Machine) -> None:
    assert Tables().machine(name) == size
    own = Tables.of({"machines": {name: {"cpu": 0.5, "memory_gib": 1}}})
    assert own.machine(name) == Machine(500, 1024)
    assert Tables().machine(f"{name}x") is None


@pytest.mark.parametrize(
    "said",
    [
        {"odd": {}},
        {"machines": {"a": {"cpu": "two", "memory_gib": 1}}},
        {"accelerators": {"a": 1}},
        {"runtimes": {"2": {"picture": "x"}}},
    ],
)
def test_a_table_that_is_wrong_is_said_at_the_start(said: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Tables.of(said)


BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "Line 1, column 4: anchors are not taken here"),
        ("trainingInput: !!python/object/apply:os.system [id]", "tags are not taken here"),
        ("a: [" * 2000, "deeper or longer"),
        ("trainingInput:\n\tregion: x", "Line 2, column 1: a tab stands where"),
        ("trainingInput:\n  region: a\n  region: b", "“region” stands twice"),
        ("a: 1\n---\na: 2", "several documents"),
        ("# " + "x" * MAX_BYTES, "larger than 256 KiB"),
        ("just words", "It must be a mapping."),
        ("trainingInput: {args: {a: b}}", "trainingInput.args: It must be a list of words."),
        ("trainingInput: {workerCount: many}", "trainingInput.workerCount: It must be a whole"),
        ("trainingInput: {region: [a]}", "trainingInput.region: It must be text."),
        ("trainingInput: {useChiefInTfConfig: 1}", "true or false."),
        ("trainingInput: {scaleTeir: BASIC}", "Did you mean “scaleTier”?"),
        ("trainingInput: {maxRunningTime: 5s}", "It belongs below “scheduling”."),
        ("trainingInput: {imageUri: a}", "It belongs below “masterConfig”."),
        ("scaleTier: BASIC", "It belongs below “trainingInput”."),
        ("a: \x00", "config: It is not YAML: unacceptable character"),
        ("{[a]: b}", "Line"),
    ],
)
def test_c19_a_file_that_is_wrong_is_refused_and_says_where(text: str, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(text)
    assert said in f"{next(iter(refused.value.fields))}: {refused.value.message}"


def test_versions_stay_as_they_are_written() -> None:
    """2.10 is not 2.1, and a date or "no" is no other type."""
    text = (
        "trainingInput: {runtimeVersion: 2.10, pythonVersion: 3.10, region: no, jobDir: 2020-01-01}"
    )
    found = read(text)["trainingInput"]
    assert found == {
        "runtimeVersion": "2.10",
        "pythonVersion": "3.10",
        "region": "no",
        "jobDir": "2020-01-01",
    }


def test_a_job_dir_in_a_bucket_is_where_results_go_too() -> None:
    asked = {"pythonModule": "trainer.task", "jobDir": "gs://team/x", "runtimeVersion": "2.10"}
    place = replace(here(), fields=FIELDS | {"output"})
    found = translate(asked, place, package="p1")
    assert found.said["output"] == "gs://team/x"
    assert found.said["args"] == ["--job-dir", "gs://team/x"]
    assert "output" not in translate(asked, here(), package="p1").said
