"""``berth model``: registered, listed, staged and deleted from a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import read

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def volume(project: Any, alice: Any, world: Any) -> Any:
    from volumes.models import Volume

    world.driver_for("local")
    return Volume.objects.create(
        project=project, name="data", kind="data", created_by=alice, cluster_key="local"
    )


def test_a_model_from_its_beginning_to_its_end(berth, token_of, alice, project, volume) -> None:
    token = token_of(alice)
    made = berth("model", "create", "digits", "--description", "Which digit", token=token)
    assert made.exit_code == 0, made.output
    add = ("model", "version", "add", "digits", "--from", "volume:data/m", "--no-wait")
    more = ("--framework", "onnx", "--metric", "accuracy=0.97", "-o", "json")
    row = read(berth(*add, *more, token=token))
    assert (row["name"], row["framework"], row["metrics"]) == ("v1", "onnx", {"accuracy": 0.97})
    staged = read(
        berth("model", "version", "stage", "digits", "v1", "serving", "-o", "json", token=token)
    )
    assert staged["stage"] == "serving"
    assert [r["name"] for r in read(berth("model", "list", "-o", "json", token=token))] == [
        "digits"
    ]
    told = berth("model", "describe", "digits", token=token).output
    assert "Which digit" in told
    assert "accuracy=0.97" in told
    assert berth("model", "version", "delete", "digits", "v1", token=token).exit_code == 0
    assert read(berth("model", "version", "list", "digits", "-o", "json", token=token)) == []
    assert berth("model", "delete", "digits", token=token).exit_code == 0
    assert berth("model", "describe", "digits", token=token).exit_code == 4


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("digits",), 2),
        (("digits", "--from", "volume:data/m", "--from-dir", "."), 2),
        (("digits", "--from", "volume:data/m", "--metric", "accuracy"), 2),
        (("digits", "--from", "volume:none/m"), 2),
        (("letters", "--from", "volume:data/m"), 4),
    ],
)
def test_what_is_wrong_is_said_and_adds_nothing(
    berth, token_of, alice, project, volume, words: tuple[str, ...], code: int
) -> None:
    from serving.models import ModelVersion

    token = token_of(alice)
    berth("model", "create", "digits", token=token)
    assert berth("model", "version", "add", *words, token=token).exit_code == code
    assert not ModelVersion.objects.exists()
