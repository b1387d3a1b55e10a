"""Makes the audit log append-only in the database itself (events.guard)."""

from django.conf import settings
from django.db import migrations

from events import guard


def install(apps, schema_editor):
    if getattr(settings, "BERTH_AUDIT_GUARD", True):
        guard.install(schema_editor.connection)


def remove(apps, schema_editor):
    guard.remove(schema_editor.connection)


class Migration(migrations.Migration):
    dependencies = [("events", "0001_initial")]

    operations = [migrations.RunPython(install, remove)]
