"""Pages asked for ahead, of three real stores: each says "from this key on" in its own words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.dataplane.test_real_stores import files_below, put_many, through
from tests.support.copying import Copying
from tests.support.stores import Store

pytestmark = [
    pytest.mark.real,
    pytest.mark.long("the same over a store of ours: dataplane/test_copy_pages.py"),
]
COUNT = 2400
AHEAD = {"start-after", "startOffset"}


def test_a_sync_again_asks_ahead_and_finds_what_changed(
    tmp_path: Path, any_store: Store, bucket_of: Callable[[Store], str]
) -> None:
    bucket = bucket_of(any_store)
    contents = {f"raw/{i // 700}/ü {i:04d}": b"%d" % i for i in range(COUNT)}
    put_many(any_store, bucket, tmp_path / "source", contents)
    with any_store.front() as front:
        place, outbound = through(any_store, front.url, bucket)
        more = {"delete_extra": True}
        copying = Copying(tmp_path, place, outbound, mode="sync", others=more)
        assert copying.run().code == 0
        front.requests.clear()
        again = copying.run()
        assert (again.code, again.files["unchanged"], again.files["deleted"]) == (0, COUNT, 0)
        ahead = [r for r in front.requests if AHEAD & set(r.query)]
        assert len(ahead) >= COUNT // 1000 - 1
        assert sum(r.status == 200 for r in ahead) == len(ahead)

        changed = {"raw/0/new": b"new", "raw/3/ü 2250": b"changed", "raw/zz": b"last"}
        put_many(any_store, bucket, tmp_path / "changes", changed)
        (copying.target / "2" / "ü 2000").unlink()
        third = copying.run()
        assert (third.code, third.files["done"], third.files["unchanged"]) == (0, 4, COUNT - 2)
    wanted = {k.removeprefix("raw/"): v for k, v in {**contents, **changed}.items()}
    assert files_below(copying.target) == wanted
