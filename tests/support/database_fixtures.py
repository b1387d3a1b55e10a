"""Databases of tests: the one of this process, and those of programs that tests start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.migrated import head_start, postgres_database
from tests.support.races import Races

SETTINGS = "portal.settings.test"


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Begin with a migrated file: every process of tests would migrate its own."""
    from django.conf import settings
    from django.db import connection

    if connection.vendor == "sqlite" and (name := connection.settings_dict["TEST"]["NAME"]):
        head_start(Path(name), settings.SETTINGS_MODULE)


@pytest.fixture(scope="session")
def races(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Races]:
    """Races on SQLite; each begins with a migrated database."""
    made = Races(tmp_path_factory.mktemp("races"), SETTINGS)
    yield made
    made.close()


@pytest.fixture
def migrated_postgres() -> Iterator[str]:
    """The URL of a migrated database that is dropped afterwards."""
    with postgres_database(SETTINGS) as url:
        yield url


@pytest.fixture
def fresh_postgres() -> Iterator[str]:
    """The URL of an empty database that is dropped afterwards."""
    with postgres_database() as url:
        yield url
