"""The file that tells the manager whether a gate is needed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from common.clock import now
from common.making import wanted_file
from portal.server import duties
from portal.server.processes import turn_file
from serving.models import Endpoint


@pytest.fixture
def file(tmp_path: Path, settings, db) -> Path:
    settings.BERTH_VAR = tmp_path
    found = wanted_file(tmp_path, "gate")
    found.parent.mkdir()
    return found


def wish(monkeypatch: pytest.MonkeyPatch, *, wanted: bool) -> None:
    monkeypatch.setattr(duties.gateway.wanted, "_callbacks", [lambda: wanted])


def test_it_is_there_while_somebody_needs_the_gate_and_for_a_while_after(file, monkeypatch):
    wish(monkeypatch, wanted=False)
    duties.gate_tick()
    assert not file.exists()
    wish(monkeypatch, wanted=True)
    duties.gate_tick()
    assert file.exists()
    wish(monkeypatch, wanted=False)
    duties.gate_tick()
    assert file.exists()
    past = time.time() - duties.LINGERS_S - 1
    os.utime(file, (past, past))
    duties.gate_tick()
    assert not file.exists()


def test_a_need_that_lasts_keeps_it_fresh(file, monkeypatch):
    wish(monkeypatch, wanted=True)
    duties.gate_tick()
    os.utime(file, (1, 1))
    duties.gate_tick()
    wish(monkeypatch, wanted=False)
    duties.gate_tick()
    assert file.exists()


def test_each_turn_is_seen_by_the_status(file, monkeypatch):
    wish(monkeypatch, wanted=False)
    turn = turn_file(file.parent.parent)
    duties.gate_tick()
    os.utime(turn, (1, 1))
    duties.gate_tick()
    assert time.time() - turn.stat().st_mtime < 60


def test_the_gateway_is_needed_while_there_is_an_endpoint_also_one_that_sleeps(
    file: Path, project, alice
) -> None:
    its = wanted_file(file.parent.parent, "gateway")
    duties.gate_tick()
    assert not its.exists()
    its.touch()  # somebody called, and there is none
    duties.gate_tick()
    assert its.exists()
    past = time.time() - duties.LINGERS_S - 1
    os.utime(its, (past, past))
    duties.gate_tick()
    assert not its.exists()
    row = Endpoint.objects.create(project=project, owner=alice, name="digits", desired="stopped")
    duties.gate_tick()
    assert its.exists()
    Endpoint.objects.filter(pk=row.pk).update(deleted_at=now())
    os.utime(its, (past, past))
    duties.gate_tick()
    assert not its.exists()
