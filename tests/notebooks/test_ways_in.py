"""The ways into a workspace on a cluster besides Open, as a part of its page."""

from tests.notebooks.addresses import url
from tests.notebooks.cluster_world import CONTAINER, row_of

WEB = {"port": 7860, "name": "demo", "web": True}


def test_ways_in_are_a_part_that_can_be_asked_for_alone(post, gpu, settle, text, alice):
    row = settle(row_of(post({**CONTAINER, "ports": [WEB]})))
    assert f'hx-get="{url(row, "state/")}?part=reach"' in text(alice, url(row))
    alone = text(alice, url(row, "state/"), part="reach")
    assert "<html" not in alone
    assert 'id="ports-title"' in alone
    assert f"{row.short_id}-7860." in alone
    assert "What it is" not in alone
