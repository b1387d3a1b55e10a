"""The newest image of a tag that was pushed again, from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

from notebooks.models import Workspace
from tests.cli.test_workspaces import ann, world  # noqa: F401 - fixtures
from tests.common.conftest import serve  # noqa: F401 - a fixture
from tests.images.conftest import Registry, nothing_kept, patient, registry  # noqa: F401
from tests.support import driving

pytestmark = pytest.mark.django_db(transaction=True)


def test_c9_the_newest_image_of_a_tag_is_taken_by_a_command(
    ann: Callable[..., Result],  # noqa: F811
    registry: Registry,  # noqa: F811
) -> None:
    registry.image("dev", User="1000", Cmd=["old"])
    image = f"{registry.host}/team/train:dev"
    app = ("--kind", "container", "--image", image, "--cluster", "gpu", "--name", "app")
    assert ann("workspace", "launch", "jupyterlab", *app).exit_code == 0
    driving.run_due()
    row = Workspace.objects.get()
    assert f"{row.image_digest} since " in ann("workspace", "show", "app").stdout
    newest = registry.image("dev", User="1000", Cmd=["new"])
    Workspace.objects.update(phase="failed", reason="image-not-found", message="not found")
    told = json.loads(ann("workspace", "show", "app", "-o", "json").stdout)["status"]
    assert "berth workspace repin" in told["advice"]
    said = ann("workspace", "repin", "app")
    assert said.exit_code == 0, said.exception
    assert newest in said.stdout
    after = Workspace.objects.get()
    assert (after.image_digest, after.launch) == (newest, row.launch + 1)
