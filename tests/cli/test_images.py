"""Images looked at from the command line, before a start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from berth_cli import images as command
from click.testing import Result

from images.findings import NO_SINGLEUSER
from images.models import ImageFacts
from notebooks.models import Workspace
from tests.cli.conftest import read
from tests.cli.test_workspaces import ann, world  # noqa: F401 - fixtures
from tests.common.conftest import serve  # noqa: F401 - a fixture
from tests.images.conftest import Registry, nothing_kept, patient, registry  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)
Ann = Callable[..., Result]


@pytest.fixture
def image(registry: Registry) -> str:  # noqa: F811
    registry.image("dev", User="1000", Cmd=["old"])
    return f"{registry.host}/team/train:dev"


def test_c9_an_image_is_looked_at_before_anything_starts(
    ann: Ann,  # noqa: F811
    image: str,
) -> None:
    said = ann("images", "check", image)
    assert said.exit_code == 0, said.exception
    for words in ("can be used", image, "sha256:", "amd64"):
        assert words in said.stdout
    assert read(ann("images", "check", image, "-o", "json"))["verdict"] == "good"
    none = ann("images", "check", image.replace("dev", "none"))
    assert none.exit_code == 1
    assert "can't be used" in none.stdout
    assert none.output.count("Check the spelling") == 1
    assert not Workspace.objects.exists()


def test_c9_an_image_without_jupyterhub_is_no_notebook_by_any_command(
    ann: Ann,  # noqa: F811
    image: str,
) -> None:
    assert ann("images", "check", image).exit_code == 0
    ImageFacts.objects.update(singleuser=NO_SINGLEUSER)
    said = ann("images", "check", image)
    assert said.exit_code == 1
    assert said.output.count("no jupyterhub-singleuser") == 1
    assert ann("images", "check", image, "--kind", "container").exit_code == 0
    lab = ("--image", image, "--kind", "notebook", "--cluster", "gpu", "--name", "lab")
    refused = ann("workspace", "launch", "jupyterlab", *lab)
    assert refused.exit_code == 2
    assert "no jupyterhub-singleuser" in str(refused.exception)
    assert not Workspace.objects.exists()


def test_waiting_asks_until_the_image_has_said_what_it_has(
    ann: Ann,  # noqa: F811
    image: str,
    monkeypatch: Any,
) -> None:
    from images import services

    monkeypatch.setattr(command, "_PAUSE_S", 0.0)
    left = [True, True, False]
    real = services.answer

    def answer(asked: Any) -> Any:
        probing = left.pop(0)
        return {**real(asked), "probing": probing, "singleuser": "" if probing else "5.2.1"}

    monkeypatch.setattr(services.gateway, "ask", lambda _q, asked, **_k: answer(asked))
    at_once = ann("images", "check", image)
    assert "being looked for" in at_once.stdout
    waited = ann("images", "check", image, "--wait")
    assert not left
    assert "5.2.1" in waited.stdout
    left += [True] * 9
    late = ann("images", "check", image, "--wait", "--timeout", "0")
    assert late.exit_code == 6
