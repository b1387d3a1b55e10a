"""No test reads in the language of the one before it."""

import pytest
from django.conf import settings
from django.utils import translation


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_begins_in_the_usual_language(turn: int) -> None:
    assert translation.get_language() == settings.LANGUAGE_CODE
    translation.activate("ja")
