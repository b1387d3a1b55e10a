"""What replicas of a framework are told, and who runs them."""

import json

import pytest

from runtime import training
from runtime.drivers.local.driver import _wire
from runtime.drivers.local.group import parts_of
from runtime.drivers.local.requests import parse_spec
from runtime.spec import PodGroup, Resources
from tests.drivers.kubernetes.test_groups import work


@pytest.mark.parametrize(
    ("framework", "replicas", "servers", "roles"),
    [
        ("none", 2, 0, ["main", "main"]),
        ("pytorch", 3, 0, ["master", "worker", "worker"]),
        ("tensorflow", 2, 2, ["chief", "worker", "ps", "ps"]),
        ("mpi", 1, 0, ["launcher"]),
    ],
)
def test_the_first_replica_leads(framework, replicas, servers, roles):
    assert training.roles(training.groups(framework, replicas, servers)) == roles


def test_an_evaluator_is_the_last_replica_and_none_of_the_cluster_that_it_reads_of():
    groups = training.groups("tensorflow", 3, 1, evaluator=True)
    assert training.roles(groups) == ["chief", "worker", "evaluator", "ps"]
    told = json.loads(training.tf_config(groups, ["a:1", "b:2", "c:3", "d:4"], "evaluator", 0))
    assert told == {
        "cluster": {"chief": ["a:1"], "worker": ["b:2"], "ps": ["d:4"]},
        "task": {"type": "evaluator", "index": 0},
    }
    two = training.groups("tensorflow", 2, evaluator=True)
    assert training.roles(two) == ["chief", "evaluator"]


def test_tensorflow_reads_who_it_is_and_where_all_are():
    groups = training.groups("tensorflow", 2, 1)
    told = json.loads(training.tf_config(groups, ["a:1", "b:2", "c:3"], "ps", 0))
    assert told == {
        "cluster": {"chief": ["a:1"], "worker": ["b:2"], "ps": ["c:3"]},
        "task": {"type": "ps", "index": 0},
    }
    assert training.grouped(training.roles(groups)) == tuple(
        PodGroup(role, 1) for role in ("chief", "worker", "ps")
    )


@pytest.mark.parametrize(
    ("framework", "replicas", "there", "who"),
    [
        ("none", 4, ("trainer", "mpi", "jobset"), ""),
        ("pytorch", 2, ("trainer",), "trainer"),
        ("pytorch", 2, (), ""),
        ("pytorch", 1, ("trainer",), ""),  # a lone pod needs nobody
        ("tensorflow", 2, ("jobset",), "jobset"),
        ("mpi", 1, ("mpi",), "mpi"),
    ],
)
def test_an_operator_runs_what_needs_one_where_it_is_there(framework, replicas, there, who):
    assert training.operator(framework, replicas, there) == who


def test_mpirun_is_put_before_a_program_and_not_before_itself():
    assert training.mpirun(["python", "a.py"], 4) == ("mpirun", "-n", "4", "python", "a.py")
    assert training.starts_others(("/usr/bin/mpiexec", "-n", "2", "a"))
    assert not training.starts_others(("python", "a.py"))


def test_servers_of_a_size_of_their_own_take_no_gpu_of_the_others():
    size = Resources(cpu_milli=500, memory_mib=256)
    spec = work(
        groups=training.groups("tensorflow", 2, 1, size),
        framework="tensorflow",
        resources=Resources(cpu_milli=1000, memory_mib=512, gpus=2),
        devices=tuple("abcd"),
    )
    said = parse_spec({**_wire(spec), "project": "p", "owner": "o"})
    parts = parts_of(said, lambda count: list(range(count)))
    found = [(part["devices"], part["resources"]["memory_mib"]) for part in parts]
    assert found == [(["a", "b"], 512), (["c", "d"], 512), ([], 256)]
