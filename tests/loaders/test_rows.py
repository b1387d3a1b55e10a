"""What is done to loads from their list: by a row's menu, and to several after one question."""

from typing import Any

import pytest

from loaders.models import Load

BASE = "/projects/vision/loads/"


@pytest.fixture
def two(project: Any, alice: Any) -> list[Load]:
    from volumes.services.create import project_volume_ensure

    volume = project_volume_ensure(principal=None, project=project)
    common = {"project": project, "owner": alice, "volume": volume, "anonymous": True}
    return [
        Load.objects.create(
            **common, name=name, store_kind="s3", bucket="b", fingerprint=name, desired="running"
        )
        for name in ("one", "two")
    ]


def test_a_row_has_a_menu_and_several_are_cancelled_and_deleted(
    as_user: Any, alice: Any, bob: Any, two: list[Load]
) -> None:
    client, ids = as_user(alice), [str(row.uid) for row in two]
    page = client.get(BASE).content.decode()
    assert f'formaction="{BASE}{ids[0]}/cancel/"' in page
    assert "row-mark" in page
    assert "row-mark" not in as_user(bob).get(BASE).content.decode()
    asked = client.get(f"{BASE}act/", {"act": "cancel", "id": ids}).content.decode()
    assert "Cancel 2 loads" in asked
    client.post(f"{BASE}act/", {"act": "cancel", "id": ids})
    assert set(Load.objects.values_list("stop_reason", flat=True)) == {"cancelled"}
    client.post(f"{BASE}act/", {"act": "delete", "id": [*ids, "no uid"], "confirm": "2"})
    assert set(Load.objects.values_list("desired", flat=True)) == {"absent"}
