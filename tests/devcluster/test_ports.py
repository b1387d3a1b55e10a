"""Servers of tests take no port that the cluster wants when it comes up beside them."""

import pytest

from tests.support import ports


def test_no_server_of_a_test_gets_a_port_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = ports.free_ports(8)
    monkeypatch.setattr(ports, "OF_THE_CLUSTER", {*ports.OF_THE_CLUSTER, taken + 6})
    given = {ports.free_ports(8) for _ in range(ports.SLOTS)}
    assert taken not in given
    assert not ports.OF_THE_CLUSTER & {base + i for base in given for i in range(7)}


def test_no_two_looks_give_the_same_port() -> None:
    assert len({ports.free_port() for _ in range(10)}) == 10
