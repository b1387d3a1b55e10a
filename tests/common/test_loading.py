"""What a process loads at its start is not looked through by Python's collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from common.memory import loading


class Part:
    """Something that stays."""


@pytest.fixture
def turns() -> Iterator[list[str]]:
    """What the collector did."""
    seen: list[str] = []

    def note(phase: str, _info: object) -> None:
        seen.append(phase)

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def test_nothing_is_collected_while_a_program_is_loaded_nor_is_it_looked_at_later(turns):
    with loading():
        loaded = [[Part()] for _ in range(50_000)]  # more than any threshold
        assert turns == []
    gc.collect()
    assert turns == ["start", "stop"]
    assert len(loaded) == 50_000
    assert not any(type(one) is Part for one in gc.get_objects())
    fresh = Part()
    assert any(one is fresh for one in gc.get_objects())


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_goes_on_as_before_though_the_program_can_not_be_loaded(collects):
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with pytest.raises(ImportError), loading():
            raise ImportError
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()
