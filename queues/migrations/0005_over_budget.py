"""The class of priority of work whose GPU-hours are spent, behind all others."""

from typing import Any

from django.db import migrations


def _make(apps: Any, _schema: Any) -> None:
    said = {"label": "Beyond its budget", "value": -1_000, "who": "operators"}
    apps.get_model("queues", "Priority").objects.get_or_create(name="over-budget", defaults=said)


class Migration(migrations.Migration):
    dependencies = [("queues", "0004_longest")]
    operations = [migrations.RunPython(_make, migrations.RunPython.noop)]
