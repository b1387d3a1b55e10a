"""What errors say."""

import pytest

from common.errors import no_such_field

KNOWN = {"command", "cpu_milli", "memory_mib", "gpus"}


@pytest.mark.parametrize(
    ("given", "meant"),
    [("comand", "command"), ("cpu", "cpu_milli"), ("memory", "memory_mib"), ("gpu", "gpus")],
)
def test_a_field_that_is_misspelt_is_told_which_is_meant(given: str, meant: str) -> None:
    assert no_such_field(given, KNOWN) == f"There is no such field. Did you mean “{meant}”?"


@pytest.mark.parametrize("given", ["colour", "", "x" * 100_000])
def test_nothing_is_guessed_where_nothing_is_alike(given: str) -> None:
    assert no_such_field(given, KNOWN) == "There is no such field."
