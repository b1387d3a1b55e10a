"""The form of a workspace shows what is set, and no room for what is not there."""

import re

from tests.notebooks.addresses import url
from tests.notebooks.cluster_world import CONTAINER, row_of


def test_all_ports_of_a_container_are_in_sight(post, gpu, text, alice):
    ports = [{"port": port, "name": f"p{port}", "web": False} for port in (7860, 7861, 7862, 7863)]
    many, one = (row_of(post({**CONTAINER, "name": f"n{n}", "ports": ports[:n]})) for n in (4, 1))
    for row, lines in ((many, 4), (one, 2)):
        shown = re.search(r'<textarea name="ports"[^>]*>', text(alice, url(row, "settings/")))
        assert shown
        assert f'rows="{lines}"' in shown[0]


def test_on_a_cluster_no_place_is_kept_for_an_environment(post, gpu, text, launch, alice):
    here, there = launch(alice), row_of(post({**CONTAINER, "name": "there"}))
    assert 'data-cluster-only="local"' in text(alice, url(here, "settings/"))
    assert 'data-cluster-only="local"' not in text(alice, url(there, "settings/"))
