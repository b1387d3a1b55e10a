"""An environment that is too large is refused before anything is made (C11)."""

from collections.abc import Callable
from typing import Any

import pytest

from common.errors import Invalid
from notebooks.models import Workspace
from work.standard_fields import ENV

MIB = 1024 * 1024


@pytest.mark.parametrize(
    "env",
    [
        {"BIG": "x" * MIB},
        {"BIG": "ü" * (ENV.longest // 2 + 1)},  # bytes count, not letters
        {f"V{n}": "x" * (ENV.together // 10) for n in range(11)},
        {f"V{n}": "" for n in range(ENV.most + 1)},
    ],
    ids=["one of 1 MiB", "letters of two bytes", "all together", "too many"],
)
def test_c11_an_environment_that_is_too_large_is_refused(
    launch: Callable[..., Any], alice: Any, env: dict[str, str]
) -> None:
    with pytest.raises(Invalid) as refused:
        launch(alice, env=env)
    assert "env" in refused.value.fields
    assert not Workspace.objects.exists()
