"""KServe in the development cluster, as far as it needs none."""

from __future__ import annotations

import json
from pathlib import Path

from devcluster import kserve, training
from devcluster.layout import PORTS, Layout
from devcluster.pki import CLIENTS
from devcluster.programs import OF_THE_CLUSTER, PROGRAMS


def test_it_is_built_on_demand_and_runs_as_itself_at_ports_of_its_own(tmp_path: Path) -> None:
    assert not set(kserve.NEEDED) & set(OF_THE_CLUSTER)
    layout = Layout(tmp_path)
    words = [str(word) for word in kserve.command(layout)]
    assert f"KUBECONFIG={layout.kubeconfig('kserve')}" in words
    assert str(PROGRAMS["kserve"].kept / "manager") in words
    assert CLIENTS["kserve"].name == "berth-cluster:kserve"
    theirs = {port for places in PORTS.values() for _, port in places}
    theirs |= {*training.WEBHOOK_PORTS.values(), *training.HEALTH_PORTS.values()}
    assert not {kserve.WEBHOOK_PORT, kserve.HEALTH_PORT} & {*theirs, training.STATUS_PORT}


def test_no_ingress_is_made_and_what_it_reads_has_sizes() -> None:
    told = {name: json.loads(text) for name, text in kserve.configuration()["data"].items()}
    assert told["deploy"] == {"defaultDeploymentMode": "Standard"}
    assert told["ingress"]["disableIngressCreation"] is True
    for name in ("storageInitializer", "logger", "agent", "batcher"):
        assert {"cpuRequest", "cpuLimit", "memoryRequest", "memoryLimit"} <= set(told[name])
