"""What runs, in which version, and what is down with the reason."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

import django
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse

from common.clock import now
from console.health import check_all
from console.views.base import ConsoleView
from runtime import leases
from runtime.reconcilers import registered, rows_of
from volumes.backing import largest_here

PACKAGES = ("djangorestframework", "celery", "django-allauth", "httpx", "uvicorn")


class System(ConsoleView):
    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/system.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        duties = [
            {
                "name": row.name,
                "every": row.every_s,
                "at": row.turned_at,
                "is_late": leases.is_late(row),
            }
            for row in leases.duties()
        ]
        return self.render(
            {
                "checks": check_all(),
                "duties": duties,
                "largest": largest_here(),
                "versions": _versions(),
                "kinds": _kinds(),
                "settings_shown": _settings(),
            }
        )


def _versions() -> list[tuple[str, str]]:
    found = [
        ("Berth", settings.BERTH_VERSION),
        ("Python", platform.python_version()),
        ("Django", django.get_version()),
        (connection.display_name, _database_version()),
    ]
    for name in PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    found.append((platform.system(), platform.release()))
    return found


def _database_version() -> str:
    return ".".join(str(part) for part in connection.get_database_version())


def _kinds() -> list[dict[str, Any]]:
    """Return what the engine looks after: how many of each, how many are due."""
    moment = now()
    found = []
    for kind in sorted(registered()):
        rows = rows_of(kind).filter(deleted_at__isnull=True)
        due = rows.filter(next_reconcile_at__lte=moment).count()
        found.append({"kind": kind, "count": rows.count(), "due": due})
    return found


def _settings() -> list[tuple[str, str]]:
    """Settings that explain behaviour; never a secret."""
    return [
        ("BERTH_PUBLIC_URL", settings.BERTH_PUBLIC_URL),
        ("BERTH_NOTEBOOK_ROUTING", settings.BERTH_NOTEBOOK_ROUTING),
        ("BERTH_NOTEBOOK_DOMAIN", settings.BERTH_NOTEBOOK_DOMAIN),
        ("BERTH_LOCAL_DRIVER", settings.BERTH_LOCAL_DRIVER),
        ("BERTH_PROJECT_CREATION", settings.BERTH_PROJECT_CREATION),
        ("BERTH_VAR", str(settings.BERTH_VAR)),
        ("sys.prefix", sys.prefix),
    ]
