"""The fleet from a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from metrics.models import DeviceReading
from tests.cli.conftest import read
from tests.support.devices import a_cluster, held, nodes

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def me(alice: Any, token_of: Any) -> dict[str, str]:
    return {"token": token_of(alice)}


def test_the_fleet_is_listed_by_node_and_by_gpu(
    berth: Any, me: Any, project: Any, alice: Any
) -> None:
    east = a_cluster()
    held(east, nodes(east, 2), [(project, alice)], 5)
    DeviceReading.objects.update(utilisation=30, at=None)
    told = berth("fleet", "--cluster", "east", **me)
    assert told.exit_code == 0, told.output
    assert "16 GPUs: 5 requested, 5 attached, unknown utilised" in told.output
    assert "east-00001" in told.output
    by_gpu = berth("fleet", "--cluster", "east", "--of", "vision", "--gpus", **me).output
    assert by_gpu.count("vision") == 5
    whole = read(berth("fleet", "-o", "json", "--cluster", "east", **me))
    assert sum(len(node["devices"]) for node in whole["nodes"]) == 16
