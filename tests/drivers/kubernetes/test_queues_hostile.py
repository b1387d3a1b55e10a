"""What deaths and strangers do to queues that Berth writes, with the real Kueue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runtime.drivers.kubernetes import apply
from tests.drivers.kubernetes.harness import wait_for
from tests.drivers.kubernetes.town import API, SPENT, Town

pytestmark = pytest.mark.cluster


class Died(BaseException):
    """The worker was killed at this very step."""


def test_e1_who_dies_halfway_is_followed_by_one_that_makes_it_whole(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    town.ground.driver.ensure_queues(replace(town.tree, priorities=SPENT))
    notebook = town.submit("a", once=False, kind="workspace", priority=f"{town.root}-build")
    town.until([notebook], 1)
    spent = f"{town.root}-over-budget"

    def dies(*_args: Any, **_more: Any) -> bool:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(apply.queues, "stand", dies)
        with pytest.raises(Died):
            town.ground.driver.stand(notebook.uid, priority=spent, waits=False)
    assert town.workload(notebook)["spec"]["priority"] == SPENT["build"]
    town.stand(notebook, "over-budget")
    assert town.workload(notebook)["spec"]["priority"] == SPENT["over-budget"]
    town.stand(notebook, "over-budget")  # once more changes nothing
    assert town.running([notebook]) == [0]


def test_e11_a_queue_that_stands_for_no_row_goes_and_those_of_others_stay(town: Town) -> None:
    kube, driver = town.ground.kube, town.ground.driver
    known = kube.get(API, "ClusterQueue", town.space("a"))
    assert known is not None
    names = {"ours": f"{town.root}-stray", "foreign": f"{town.root}-others", "by hand": "hands-own"}
    labels: dict[str, dict[str, str]] = {
        "ours": known["metadata"]["labels"],
        "foreign": {**known["metadata"]["labels"], "berth.dev/instance": "another"},
        "by hand": {},
    }
    alone = {name: said for name, said in known["spec"].items() if name != "cohortName"}
    for word, name in names.items():
        meta = {"name": name, "labels": labels[word]}
        made = {"apiVersion": API, "kind": "ClusterQueue", "metadata": meta}
        kube.apply({**made, "spec": alone})
    try:
        assert driver.ensure_queues(town.tree) == (f"ClusterQueue/{names['ours']}",)
        wait_for(lambda: kube.get(API, "ClusterQueue", names["ours"]) is None, seconds=30)
        assert driver.ensure_queues(town.tree) == ()
        assert all(kube.get(API, "ClusterQueue", names[word]) for word in ("foreign", "by hand"))
    finally:
        for name in names.values():
            kube.delete(API, "ClusterQueue", name)
