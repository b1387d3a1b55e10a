"""Katib's objects of a search: what is written, and what a trial is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runtime.capabilities.experiments import EXPERIMENT, ExperimentSpec, TrialEnd
from runtime.drivers.kubernetes import experiments, names
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import NotYet

OPTIONS = KubernetesOptions(
    namespace_prefix="acme-",
    installation="one",
    portal_role="berth-projects",
    portal_account="berth/portal",
)
SPEC = ExperimentSpec(
    uid="0193f0aa-0000-7000-8000-000000000001",
    name="learning rate",
    generation=0,
    metric="score",
    maximizes=True,
    algorithm="tpe",
    settings={"random_state": "7"},
    space=[
        {"name": "x", "parameterType": "double", "feasibleSpace": {"min": "0", "max": "1"}},
        {"name": "y", "parameterType": "int", "feasibleSpace": {"min": "1", "max": "4"}},
    ],
    trials_max=8,
    parallel=2,
)


def test_what_katib_makes_itself_can_never_start() -> None:
    spec = experiments.built(SPEC, OPTIONS)["spec"]["trialTemplate"]["trialSpec"]["spec"]
    assert spec["suspend"] is True
    assert spec["template"]["spec"]["schedulingGates"] == [{"name": experiments.NEVER}]


@pytest.mark.parametrize("name", ["learning rate", "学習率", "a" * 60, "-", "Ünï/⚡", "1st"])
def test_names_of_people_give_valid_and_distinct_objects(name: str) -> None:
    made = {names.experiment(name, SPEC.uid, begin) for begin in range(3)}
    made |= {names.experiment(name, SPEC.uid.replace("1", "2"), 0)}
    assert len(made) == 4
    for one in made:
        assert len(one) <= 40  # Katib's own limit
        assert one[0].isalpha()
        assert one.replace("-", "").isalnum()
        assert one == one.lower()
        assert one.isascii()


def test_every_parameter_stands_in_the_template_as_katib_demands() -> None:
    template = experiments.built(SPEC, OPTIONS)["spec"]["trialTemplate"]
    assert [one["reference"] for one in template["trialParameters"]] == ["x", "y"]
    for name in ("x", "y"):
        assert f"${{trialParameters.{name}}}" in str(template["trialSpec"])
    long = experiments.standing(["p" * 63])["metadata"]["annotations"]
    assert all(len(key.partition("/")[2]) <= 63 for key in long)  # Kubernetes' own limit


def test_its_namespace_is_no_projects_restricted_and_open_to_katib_only() -> None:
    there, binding, policy = experiments.place(OPTIONS)
    labels = there["metadata"]["labels"]
    assert there["metadata"]["name"] == "acme-searches"
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert names.MANAGED not in labels  # no project's, or it would be taken for one that is left
    assert binding["roleRef"]["name"] == "berth-projects"
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    (rule,) = policy["spec"]["ingress"]
    (peer,) = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "kubeflow"}
    assert len(experiments.place(replace(OPTIONS, portal_role=""))) == 2


def test_a_trial_is_told_its_end_and_what_was_there_stays() -> None:
    created = {"type": "Created", "status": "True"}
    running = {"type": "Running", "status": "True"}
    trial: dict[str, Any] = {"status": {"conditions": [created, running]}}
    status = experiments.told(trial, "score", TrialEnd("Succeeded", curve=[0.5, 0.75, 0.25]))
    assert [(c["type"], c["status"]) for c in status["conditions"]] == [
        ("Created", "True"),
        ("Running", "False"),
        ("Succeeded", "True"),
    ]
    (metric,) = status["observation"]["metrics"]
    assert metric == {"name": "score", "latest": "0.25", "min": "0.25", "max": "0.75"}
    assert "observation" not in experiments.told(trial, "score", TrialEnd("Failed"))


HERE = "/apis/kubeflow.org/v1beta1"


@pytest.mark.parametrize("whose", ["one", "another", ""])
def test_what_is_there_is_listed_as_its_namespace_says_and_anothers_is_not_removed(
    stub: Any, whose: str
) -> None:
    its = {names.EXPERIMENT: SPEC.uid}
    marks = names.marks("acme-", whose)
    stub.put("/api/v1/namespaces", {"metadata": {"name": "acme-searches", "labels": marks}})
    for begin in range(2):  # a begin before it whose worker was killed goes, too
        name = names.experiment(SPEC.name, SPEC.uid, begin)
        meta = {"name": name, "namespace": "acme-searches", "labels": its}
        stub.put(f"{HERE}/experiments", {"metadata": meta, "spec": {}})
    foreign = {"name": "theirs", "namespace": "acme-searches"}  # somebody made it by hand
    stub.put(f"{HERE}/experiments", {"metadata": foreign, "spec": {}})
    driver = stub.driver(namespace_prefix="acme-", installation="one")
    found = driver.list_experiments()
    assert [(o.uid, o.kind, o.installation) for o in found] == [(SPEC.uid, EXPERIMENT, whose)]
    if whose == "another":
        driver.remove_experiment(SPEC.uid)
        assert driver.list_experiments() == found
        return
    with pytest.raises(NotYet):
        driver.remove_experiment(SPEC.uid)
    driver.remove_experiment(SPEC.uid)
    assert driver.list_experiments() == []
    assert (f"{HERE}/experiments", "acme-searches/theirs") in stub.objects


def test_where_katib_is_gone_and_other_kinds_of_kubeflow_stay_nothing_is_there(stub: Any) -> None:
    """The training operator has its kinds in the same version of the same group."""
    marks = names.marks("acme-", "one")
    stub.put("/api/v1/namespaces", {"metadata": {"name": "acme-searches", "labels": marks}})
    stub.put(f"{HERE}/profiles", {"metadata": {"name": "p"}})

    def gone(handler: Any, _method: str, path: str, _query: Any) -> bool:
        if "/experiments" in path or "/trials" in path:
            handler.refuse(404)
            return True
        return False

    stub.fault = gone
    driver = stub.driver(namespace_prefix="acme-", installation="one")
    assert driver.list_experiments() == []
    driver.remove_experiment(SPEC.uid)


def test_where_nothing_was_ever_searched_it_costs_one_request(stub: Any) -> None:
    assert stub.driver().list_experiments() == []
    assert len(stub.seen) == 1
