"""The operators of training, as far as they need no cluster."""

import json
from pathlib import Path

from devcluster import training
from devcluster.layout import PORTS, Layout
from devcluster.pki import CLIENTS
from devcluster.programs import OF_THE_CLUSTER, PROGRAMS


def test_no_cluster_waits_for_its_programs_and_each_has_its_command(tmp_path: Path) -> None:
    assert not set(training.NEEDED) & set(OF_THE_CLUSTER)
    own = str(Layout(tmp_path).kubeconfig("training"))
    for name in training.NEEDED:
        words = [str(word) for word in training.command(Layout(tmp_path), name)]
        assert any(word.endswith(own) for word in words)
        assert any(
            word in words for word in (str(PROGRAMS[name].kept / n) for n in PROGRAMS[name].names)
        )
    assert CLIENTS["training"].name == "berth-cluster:training"


def test_its_ports_are_nobody_elses(tmp_path: Path) -> None:
    theirs = {port for places in PORTS.values() for _, port in places}
    ours = [*training.WEBHOOK_PORTS.values(), *training.HEALTH_PORTS.values(), training.STATUS_PORT]
    assert len(set(ours)) == len(ours)
    assert not theirs & set(ours)
    training_files = Layout(tmp_path)
    training_files.made()
    training.write_configuration(training_files)
    for name in ("jobset", "trainer"):  # the others have flags
        said = json.loads((training_files.config / f"{name}.yaml").read_text())
        assert said["webhook"]["host"] == "127.0.0.1"
