"""What replicas of a framework are told, and who runs them."""

import json

import pytest

from runtime import training
from runtime.protocol import PodGroup


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
