"""Whether work finds Berth is asked from now on: of clusters that are attached already, at once.

An earlier version, which may run meanwhile, reads the mark as it always did.
"""

from typing import Any

from django.db import migrations
from django.utils.timezone import now


def ask(apps: Any, schema_editor: Any) -> None:
    rows = apps.get_model("clusters", "Cluster").objects.using(schema_editor.connection.alias)
    rows.filter(driver="kubernetes").update(checks_due_at=now())


class Migration(migrations.Migration):
    dependencies = [("clusters", "0010_claim_held_at")]
    operations = [migrations.RunPython(ask, migrations.RunPython.noop, elidable=True)]
