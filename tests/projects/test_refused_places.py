"""A place that its cluster does not let us keep: nothing new starts in it."""

from typing import Any, NoReturn

import pytest

from common.clock import now
from projects import namespaces
from projects.models import ProjectNamespace
from runtime import engine, ports
from runtime.protocol import Denied
from runtime.reasons import Reason
from tests.projects.cluster_double import KEY, TenantFake, alpha

pytestmark = pytest.mark.django_db
__all__ = ["alpha"]


def refuse(*_args: Any) -> NoReturn:
    raise Denied("Nobody may touch this.")


def look(row: ProjectNamespace) -> ProjectNamespace:
    ProjectNamespace.objects.filter(pk=row.pk).update(next_reconcile_at=now())
    engine.reconcile_one(row.KIND, row.pk)
    row.refresh_from_db()
    return row


@pytest.fixture
def place(alpha: TenantFake, project: Any) -> ProjectNamespace:
    made = namespaces.place_ensure(project=project, cluster_key=KEY)
    assert made is not None
    assert look(made).phase == "running"
    return made


def test_what_is_new_waits_where_guards_may_not_be_put_back(
    alpha: TenantFake, place: ProjectNamespace, project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alpha, "ensure_tenant", refuse)
    assert (look(place).phase, place.reason) == ("pending", Reason.DENIED)
    assert ports.tenant_ready(KEY, str(project.uid)) == "Nobody may touch this."
