"""The table in the documents is the table in the code."""

from pathlib import Path

import pytest

from portal.management.commands.berth_permissions import markdown
from projects.access import (
    AUDITOR_PERMISSIONS,
    OPERATOR_PERMISSIONS,
    PERMISSION_TEXT,
    ROLE_PERMISSIONS,
    Permission,
)
from projects.choices import Role

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "permissions.md"


def test_the_document_is_what_the_code_says() -> None:
    assert DOCUMENT.read_text() == markdown(), (
        "run manage.py berth_permissions > docs/permissions.md"
    )


def test_every_right_has_a_text_and_somebody_who_has_it() -> None:
    assert set(PERMISSION_TEXT) == set(Permission)
    assert frozenset().union(*ROLE_PERMISSIONS.values()) == set(Permission)
    assert [p.value for p in Permission] == sorted(p.value for p in Permission)


@pytest.mark.parametrize(
    ("lower", "higher"),
    [(Role.VIEWER, Role.MEMBER), (Role.MEMBER, Role.MANAGER), (Role.MANAGER, Role.OWNER)],
)
def test_a_higher_role_may_all_that_a_lower_one_may(lower: Role, higher: Role) -> None:
    assert ROLE_PERMISSIONS[lower] < ROLE_PERMISSIONS[higher]


def test_neither_operators_nor_auditors_start_work_in_foreign_projects() -> None:
    assert Permission.WORKSPACE_CREATE not in OPERATOR_PERMISSIONS
    assert all(p.endswith(":read") for p in AUDITOR_PERMISSIONS)
