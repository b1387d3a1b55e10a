"""Steps, shares and attachments are of any workload from here on: their tables go to ``work``.

A workspace has the id of its workload, and so has a load: what points at them stays as it is.
"""

import django.db.models.deletion
from django.db import migrations, models

MODELS = {  # each and its new table
    "Step": "work_step",
    "Share": "work_share",
    "WorkspaceVolume": "work_workloadvolume",
    "WorkspaceCredential": "work_workloadcredential",
    "WorkspaceNeed": "work_workloadneed",
}
RELATED = {
    "Step": "steps",
    "Share": "shares",
    "WorkspaceVolume": "mounts",
    "WorkspaceCredential": "keys",
    "WorkspaceNeed": "needs",
}


def key(related):
    return models.ForeignKey(
        on_delete=django.db.models.deletion.CASCADE, related_name=related, to="work.workload"
    )


class Migration(migrations.Migration):
    dependencies = [
        ("loaders", "0008_workload"),
        ("notebooks", "0008_workload"),
    ]

    operations = [
        migrations.RemoveField("workspace", "visitors"),
        migrations.RemoveIndex("step", "notebooks_steps"),
        migrations.RemoveConstraint("share", "notebooks_share_once"),
        migrations.RemoveConstraint("workspacevolume", "notebooks_mount_once"),
        migrations.RemoveConstraint("workspacecredential", "notebooks_key_once"),
        migrations.RemoveConstraint("workspaceneed", "notebooks_need_once"),
        *(migrations.RenameField(name, "workspace", "workload") for name in MODELS),
        *(migrations.AlterField(name, "workload", key(RELATED[name])) for name in MODELS),
        migrations.RenameField("workspaceneed", "load", "needed"),
        migrations.AlterField("workspaceneed", "needed", key("needed_by")),
        *(migrations.AlterModelTable(name, table) for name, table in MODELS.items()),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.DeleteModel(name) for name in MODELS]
        ),
    ]
