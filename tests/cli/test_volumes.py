"""Volumes from a terminal: the same objects as in the page and the API."""

from __future__ import annotations

import pytest

from tests.cli.conftest import read
from tests.support import driving

pytestmark = pytest.mark.django_db(transaction=True)

MANIFEST = """
apiVersion: berth.dev/v1
kind: Volume
metadata:
  name: from-a-file
spec:
  size_mib: 2048
  description: said in a file
"""


@pytest.fixture
def world(project):
    from clusters import registry
    from clusters.services import ensure_local_cluster

    registry.reset()
    ensure_local_cluster()
    yield
    registry.reset()


@pytest.fixture
def ann(berth, token_of, alice, world):
    token = token_of(alice)
    return lambda *args, stdin=None: berth("volumes", *args, token=token, stdin=stdin)


def test_a_volume_from_its_making_to_its_end(ann, world):
    made = read(ann("create", "set", "--size", "2GiB", "-o", "json"))
    assert made["size_limit_mib"] == 2048
    driving.run_due()
    assert read(ann("show", "set", "-o", "json"))["phase"] == "running"
    assert read(ann("resize", "set", "3g", "-o", "json"))["size_limit_mib"] == 3072
    assert "set" in ann("list").stdout
    assert ann("edit", "set", "--name", "other", "--description", "x").exit_code == 0
    assert ann("delete", "other", stdin="set\n").exit_code == 2
    assert ann("delete", "other", stdin="other\n").exit_code == 0
    assert "being deleted" in ann("list", "--deleted").stdout
    assert read(ann("restore", "other", "-o", "json"))["desired"] == "running"
    assert ann("delete", "other", "--yes", "--now").exit_code == 0
    driving.run_due()
    assert read(ann("list", "--kind", "data", "-o", "json")) == []


def test_snapshots_and_transfers(ann, world):
    ann("create", "set", "--size", "2g")
    driving.run_due()
    assert ann("snapshot", "create", "set", "--name", "one").exit_code == 0
    driving.run_due()
    assert "one" in ann("snapshot", "list", "set").stdout
    assert ann("snapshot", "restore", "set", "one", stdin="no\n").exit_code == 2
    assert ann("snapshot", "restore", "set", "one", "--yes").exit_code == 0
    driving.run_due()
    assert ann("snapshot", "restore", "set", "two", "--yes").exit_code == 4
    assert ann("snapshot", "delete", "set", "one").exit_code == 0
    driving.run_due()
    assert ann("transfer", "ask", "set", "nowhere").exit_code == 0
    assert ann("transfer", "withdraw", "set").exit_code == 0
    assert ann("transfer", "inbox").exit_code == 0


def test_a_file_a_form_and_options_make_the_same(berth, token_of, alice, ann, tmp_path):
    file = tmp_path / "volume.yaml"
    file.write_text(MANIFEST)
    token = token_of(alice)
    plan = read(berth("apply", "-f", str(file), "--plan", "-o", "json", token=token))
    assert plan["action"] == "create"
    assert read(ann("list", "--kind", "data", "-o", "json")) == []
    made = read(berth("apply", "-f", str(file), "-o", "json", token=token))
    assert made["description"] == "said in a file"
    again = read(berth("apply", "-f", str(file), "--plan", "-o", "json", token=token))
    assert again["action"] == "none"


@pytest.mark.parametrize("size", ["much", "-1", "1ZB", ""])
def test_a_size_that_is_none_is_wrong_usage(ann, size):
    answer = ann("create", "set", "--size", size)
    assert answer.exit_code == 2


def test_sizes_are_binary_whatever_is_written():
    from berth_cli.volumes import Size

    said = ("1", "1g", "1GB", "1GiB", "1024m", "1.5T")
    found = [Size().convert(text, None, None) for text in said]
    assert found == [1024, 1024, 1024, 1024, 1024, 1.5 * 1024**2]
