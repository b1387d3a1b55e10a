"""Redis may be within reach of workspaces: nothing in it is run."""

import pickle
from datetime import UTC, datetime

import pytest

from common.caching import JsonSerializer


@pytest.mark.parametrize(
    "value", [None, True, 0, 7, 1.5, "x", [1.5, 2.5], {"a": [1]}, datetime.now(UTC)]
)
def test_what_the_portal_keeps_comes_back_as_it_was(value: object) -> None:
    kept = JsonSerializer().dumps(value)
    found = JsonSerializer().loads(kept if isinstance(kept, bytes) else str(kept).encode())
    assert found == value
    assert type(found) is type(value)


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("a pickle was run",)


def test_a_planted_pickle_is_never_run() -> None:
    with pytest.raises(UnicodeDecodeError):
        JsonSerializer().loads(pickle.dumps(Bomb()))


def test_the_cache_in_redis_is_set_up_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess
    import sys

    code = (
        "from portal.settings import base; print(base.CACHES['default']['OPTIONS']['serializer'])"
    )
    monkeypatch.setenv("BERTH_REDIS_URL", "redis://localhost:6379/9")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "common.caching.JsonSerializer"
