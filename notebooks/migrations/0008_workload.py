"""What a workspace has in common with other work moves to the table of all work.

A workspace keeps its id: it is the id of its workload from here on, and what points at it stays.
"""

import django.db.models.deletion
from django.db import migrations, models

from work.migrations._moving import AlterBases, copy_rows, hold

MOVED = (
    *("asked_at", "cluster_key", "cpu_milli", "created_at", "deleted_at", "desired", "ends_at"),
    *("extended_minutes", "external_ref", "failures", "generation", "gpu_flavor", "gpus"),
    *("last_observed_at", "launch", "lease_attempts", "lease_token", "lease_until", "memory_mib"),
    *("message", "name", "network", "next_reconcile_at", "nonce", "observed_generation", "owner"),
    *("phase", "phase_since", "pool", "project", "ready_at", "reason", "shm_mib", "short_id"),
    *("started_at", "stop_reason", "stop_requested_at", "stopped_at", "time_limit_minutes", "uid"),
    *("updated_at", "warned_at"),
)
OWN = (
    *("ends_at", "extended_minutes", "gpu_flavor", "gpus", "network", "pool", "ready_at"),
    *("shm_mib", "short_id", "stop_requested_at", "stopped_at", "time_limit_minutes", "warned_at"),
)


def copy(apps, schema_editor):
    quote = schema_editor.quote_name
    table = apps.get_model("notebooks", "Workspace")._meta.db_table
    hold(schema_editor, table)
    copy_rows(
        schema_editor,
        apps.get_model("work", "Workload"),
        table,
        {
            **{name: quote(name) for name in OWN},
            "kind": "'workspace'",
            "name_scope": quote("owner_id"),
            "queue": "''",
            "priority": "''",
        },
    )


class Migration(migrations.Migration):
    dependencies = [
        ("notebooks", "0007_samples_to_metrics"),
        ("work", "0001_workload"),
    ]

    operations = [
        migrations.RunPython(copy),
        migrations.RemoveConstraint("workspace", "notebooks_workspace_observed_lte_generation"),
        migrations.RemoveConstraint("workspace", "notebooks_name_once"),
        migrations.RemoveConstraint("workspace", "notebooks_nonce_once"),
        migrations.RemoveIndex("workspace", "notebook_workspace_due"),
        migrations.RemoveIndex("workspace", "notebooks_by_project"),
        migrations.RemoveIndex("workspace", "notebooks_by_owner"),
        migrations.RemoveIndex("workspace", "notebooks_ends"),
        *(migrations.RemoveField("workspace", name) for name in MOVED),
        migrations.RenameField("workspace", "kind", "variant"),
        migrations.RenameField("workspace", "id", "workload_ptr"),
        migrations.AlterField(
            "workspace",
            "workload_ptr",
            models.OneToOneField(
                auto_created=True,
                on_delete=django.db.models.deletion.CASCADE,
                parent_link=True,
                primary_key=True,
                serialize=False,
                to="work.workload",
            ),
        ),
        AlterBases("Workspace", ["work.workload"]),
    ]
