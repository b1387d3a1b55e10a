"""Levels at which nodes stand together (A10, L6): what fits into one unit, rack or host, and when.

The node table is 2 units of 2 racks of 2 hosts of 8 devices.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.decision import DeviceRequest, Request
from placement.levels import Spot, apart
from runtime.spec import Together

LEVELS = {"unit": "su", "rack": "rack", "host": "kubernetes.io/hostname"}


def nodes(*free: int, devices: int = 8) -> list[Spot]:
    """Return the eight nodes, the first of which have so many free, the others all."""
    found = []
    for n in range(8):
        labels = {"su": f"su-{n // 4}", "rack": f"r-{n % 4 // 2}"}  # racks are called alike in both
        found.append(Spot(f"n{n}", labels, devices, free[n] if n < len(free) else devices))
    return found


def stands(
    count: int, replicas: int, where: str, *kinds: Sequence[Spot], required: bool = True
) -> tuple[str, str, bool] | None:
    together = Together(where, required) if where else None
    request = Request("job", DeviceRequest(count), replicas=replicas, together=together)
    found = apart(request, kinds or [nodes()], LEVELS)
    return None if found is None else (found.reason.id, str(found.reason), found.fits)


@pytest.mark.parametrize(
    ("count", "replicas", "where", "reason"),
    [
        (8, 4, "unit", None),
        (8, 2, "rack", None),
        (8, 1, "host", None),
        (4, 2, "host", None),
        (8, 5, "unit", "not-in-one"),
        (8, 3, "rack", "not-in-one-but"),
        (8, 2, "host", "not-in-one-but"),
        (5, 5, "unit", "not-in-one"),  # 32 devices, and room for four replicas of five
        (5, 4, "unit", None),
    ],
)
def test_l6_what_fits_into_one_part(
    count: int, replicas: int, where: str, reason: str | None
) -> None:
    found = stands(count, replicas, where)
    assert (found and found[0]) == reason


def test_l6_what_is_said_before_it_is_submitted() -> None:
    assert stands(8, 5, "unit") == (
        "not-in-one",
        "It does not fit into one scalable unit: 40 GPUs are asked for, and the largest holds 32.",
        False,
    )
    assert stands(8, 3, "rack") == (
        "not-in-one-but",
        (
            "It does not fit into one rack: 24 GPUs are asked for, and the largest holds 16. "
            "It fits into one scalable unit."
        ),
        False,
    )


def test_a10_what_is_free_in_pieces_waits_and_says_the_largest() -> None:
    found = stands(2, 4, "rack", nodes(4, 2, 4, 4, 3, 3, 1, 1))
    assert found is None  # the second rack of the first unit has twice four
    assert stands(2, 4, "rack", nodes(4, 2, 3, 4, 3, 3, 1, 1)) == (
        "in-pieces",
        "What is free is in pieces: the freest rack has room for 6 of 8 GPUs.",
        True,
    )


def test_two_racks_of_one_name_in_two_units_are_two() -> None:
    assert stands(8, 4, "rack") is not None


def test_kinds_are_not_mixed_in_one_part() -> None:
    halves = [nodes(devices=4), nodes(devices=4)]
    assert stands(4, 4, "unit", *halves) is None
    assert stands(4, 5, "unit", *halves) is not None


def test_a_node_that_says_nothing_is_in_no_part() -> None:
    loose = [Spot("n9", {}, 64, 64)]
    assert stands(8, 1, "unit", loose) is not None
    assert stands(8, 1, "host", loose) is None


@pytest.mark.parametrize("where", ["", "rack"])
def test_what_need_not_be_together_needs_a_node_for_each_replica(where: str) -> None:
    def told(count: int, replicas: int, *free: int) -> tuple[str, str, bool] | None:
        return stands(count, replicas, where, nodes(*free), required=False)

    assert told(8, 8) is None
    assert told(8, 1, *[6] * 8) == (
        "in-pieces",
        "What is free is in pieces: the freest host has room for 6 of 8 GPUs.",
        True,
    )
    found = told(8, 3, *[6] * 6)
    assert found is not None
    assert found[0] == "in-use"


@given(
    free=st.lists(st.integers(0, 8), min_size=8, max_size=8),
    count=st.integers(1, 8),
    replicas=st.integers(1, 9),
    where=st.sampled_from(list(LEVELS)),
)
def test_l6_what_starts_now_has_a_part_that_holds_it_and_what_waits_has_none(
    free: list[int], count: int, replicas: int, where: str
) -> None:
    """Compared with trying each part, replica by replica."""
    sizes = {"unit": 4, "rack": 2, "host": 1}
    parts = [range(n, n + sizes[where]) for n in range(0, 8, sizes[where])]

    def held(room: list[int]) -> bool:
        for part in parts:
            left, rest = [room[n] for n in part], replicas
            for n in range(len(left)):
                while rest and left[n] >= count:
                    left[n], rest = left[n] - count, rest - 1
            if not rest:
                return True
        return False

    found = stands(count, replicas, where, nodes(*free))
    assert (found is None) == held(free)
    assert (found is None or found[2]) == held([8] * 8)
