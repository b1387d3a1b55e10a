"""The first start: an administrator, a project to try things in, presets. Later: nothing."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import transaction

from accounts.models import PlatformRole, User
from accounts.principal import Principal
from accounts.services.people import password_reset_by_operator, user_create
from clusters import installed
from clusters.services import ensure_local_cluster
from notebooks.services.presets import ensure_default_presets
from projects.services.life import project_create

ADMIN = "admin"
PROJECT = "demo"


class Command(BaseCommand):
    help = "Makes the first administrator, a demo project and presets where there are none."

    def handle(self, *args: Any, **options: Any) -> None:
        del args, options
        installed.ensure_in_cluster()  # before the project, which wants its place there
        password = first_administrator()
        if settings.BERTH_LOCAL_CLUSTER:
            ensure_local_cluster()
        ensure_default_presets()
        if password and not settings.BERTH_ADMIN_PASSWORD:
            self.stdout.write(
                "\n"
                f"  The first administrator, shown this once:\n"
                f"    address:  {settings.BERTH_PUBLIC_URL}\n"
                f"    user:     {ADMIN}\n"
                f"    password: {password}\n"
                "  Forgotten later: berth admin reset-password admin\n"
            )


@transaction.atomic
def first_administrator() -> str:
    """Makes the account and its project on an empty database; returns the password or ''."""
    if User.objects.exists():
        return ""
    admin = user_create(
        who=None, username=ADMIN, display_name="Administrator", platform_role=PlatformRole.OPERATOR
    )
    password = password_reset_by_operator(who=None, user=admin)
    if settings.BERTH_ADMIN_PASSWORD:  # the operator has put it where only operators look
        admin.set_password(settings.BERTH_ADMIN_PASSWORD)
        admin.save(update_fields=["password"])
    project_create(principal=Principal(user=admin), name="Demo", slug=PROJECT)
    return password
