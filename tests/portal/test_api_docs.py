"""The API describes itself to anybody, and that costs next to nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from portal import views

pytestmark = pytest.mark.django_db
SCHEMA = "/api/v1/schema"


@pytest.fixture
def made(monkeypatch: Any) -> Iterator[list[SchemaGenerator]]:
    """Every time that the document is made."""
    found: list[SchemaGenerator] = []
    whole = SchemaGenerator.get_schema

    def counted(self: SchemaGenerator, *args: Any, **named: Any) -> Any:
        found.append(self)
        return whole(self, *args, **named)

    monkeypatch.setattr(SchemaGenerator, "get_schema", counted)
    views.written.cache_clear()
    yield found
    views.written.cache_clear()


def test_it_is_made_once_however_often_anybody_asks(made: list[SchemaGenerator]) -> None:
    answers = [Client().get(SCHEMA, {"lang": "no-such"}) for _ in range(3)]
    assert len(made) == 1
    assert {answer.status_code for answer in answers} == {200}
    assert {answer["Content-Type"] for answer in answers} == {
        "application/vnd.oai.openapi; charset=utf-8"
    }
    assert answers[0]["Content-Disposition"] == 'inline; filename="Berth API.yaml"'


def test_it_is_the_same_in_yaml_and_in_json(made: list[SchemaGenerator]) -> None:
    as_json = Client().get(SCHEMA, {"format": "json"})
    assert as_json["Content-Type"].startswith("application/vnd.oai.openapi+json")
    as_yaml = yaml.load(Client().get(SCHEMA).content, Loader=yaml.CSafeLoader)
    assert as_json.json() == as_yaml


def test_each_language_has_its_own(made: list[SchemaGenerator]) -> None:
    english = Client().get(SCHEMA)
    japanese = Client(headers={"Accept-Language": "ja"}).get(SCHEMA)
    assert japanese.content == Client().get(SCHEMA, {"lang": "ja"}).content
    assert english.content == Client().get(SCHEMA, {"lang": "en"}).content
    assert len(made) == 2
