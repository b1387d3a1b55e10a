"""Databases of tests: the one of this process, and those of programs that tests start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.migrated import head_start, postgres_database

SETTINGS = "portal.settings.test"


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Begin with a migrated file: every process of tests would migrate its own."""
    from django.conf import settings
    from django.db import connection

    if connection.vendor == "sqlite" and (name := connection.settings_dict["TEST"]["NAME"]):
        head_start(Path(name), settings.SETTINGS_MODULE)


@pytest.fixture
def migrated_sqlite(tmp_path: Path) -> str:
    """The URL of a migrated database of one test."""
    file = tmp_path / "migrated.sqlite3"
    head_start(file, SETTINGS)
    return f"sqlite:///{file}"


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
