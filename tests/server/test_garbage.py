"""What lasts is looked through once; what became garbage since is found when all of it is again."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from portal.server import collector


class Ring:
    """Refers to itself: only the collector finds it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.callbacks.remove(collector._after)


def test_what_outlived_a_full_collection_is_not_looked_at_again():
    collector.set_apart()
    lasting = [Ring() for _ in range(1000)]
    gc.collect()
    assert not any(isinstance(one, Ring) for one in gc.get_objects())
    assert len(lasting) == 1000
    fresh = Ring()
    assert any(one is fresh for one in gc.get_objects())


def test_a_ring_is_collected_before_it_was_set_apart_and_at_the_next_thaw_after():
    collector.set_apart()
    seen = weakref.ref(Ring())
    gc.collect()
    assert seen() is None
    lasting = Ring()
    gc.collect()
    seen = weakref.ref(lasting)
    del lasting
    gc.collect()
    assert seen() is not None
    collector.thaw()
    assert seen() is None


def test_beginning_twice_is_beginning_once():
    collector.set_apart()
    collector.set_apart()
    assert gc.callbacks.count(collector._after) == 1
