"""Variables of workspaces are sealed from now on, and those that are there at once.

In steps that each stand for themselves: killed anywhere, the next run goes on with the rest. What
an older process writes meanwhile is sealed by the housekeeping of this version.
"""

from typing import Any

from django.db import migrations

from credentials import rekey


def seal(apps: Any, schema_editor: Any) -> None:
    rekey.seal_plain([(apps.get_model("notebooks", "Workspace"), "env")])


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("notebooks", "0005_idle_stop_at")]
    operations = [migrations.RunPython(seal, migrations.RunPython.noop, elidable=True)]
