"""What a load has in common with other work moves to the table of all work.

Loads get the ids after those of workspaces; what points at them goes along. Each gets a short id.
"""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Max

from common.ids import new_short_id
from work.migrations._moving import AlterBases, copy_rows, hold, settle

MOVED = (
    *("asked_at", "cluster_key", "cpu_milli", "created_at", "deleted_at", "desired", "ended_at"),
    *("external_ref", "failures", "generation", "last_observed_at", "launch", "lease_attempts"),
    *("lease_token", "lease_until", "memory_mib", "message", "name", "next_reconcile_at", "nonce"),
    *("observed_generation", "owner", "phase", "phase_since", "project", "reason", "started_at"),
    *("stop_reason", "uid", "updated_at"),
)


def move(apps, schema_editor):
    load = apps.get_model("loaders", "Load")
    workload = apps.get_model("work", "Workload")
    pointing = [
        (apps.get_model("loaders", "LoadRun")._meta.db_table, "load_id"),
        (apps.get_model("notebooks", "WorkspaceNeed")._meta.db_table, "load_id"),
    ]
    hold(schema_editor, load._meta.db_table, *(name for name, _column in pointing))
    # above both, so that no id is in use twice on the way
    offset = max(model.objects.aggregate(last=Max("pk"))["last"] or 0 for model in (load, workload))
    quote = schema_editor.quote_name
    table = quote(load._meta.db_table)
    for name, column in ((load._meta.db_table, "id"), *pointing):
        moved = f"{quote(column)} = {quote(column)} + {int(offset)}"
        schema_editor.execute(f"UPDATE {quote(name)} SET {moved}")
    settle(schema_editor)
    copy_rows(
        schema_editor,
        workload,
        load._meta.db_table,
        {
            "kind": "'load'",
            "short_id": "'load-' || id",
            "name_scope": "0",
            "stopped_at": quote("ended_at"),
            "gpus": "0",
            "gpu_flavor": "''",
            "extended_minutes": "0",
            "queue": "''",
            "priority": "''",
        },
    )
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(f"SELECT id FROM {table}")
        given = [(new_short_id(), pk) for (pk,) in cursor.fetchall()]
        rows = quote(workload._meta.db_table)
        cursor.executemany(f"UPDATE {rows} SET short_id = %s WHERE id = %s", given)
    settle(schema_editor)


class Migration(migrations.Migration):
    dependencies = [
        ("loaders", "0007_what_runs_wrote"),
        ("notebooks", "0008_workload"),  # theirs are the first ids
        ("work", "0001_workload"),
    ]

    operations = [
        migrations.RunPython(move),
        migrations.RemoveConstraint("load", "loaders_load_observed_lte_generation"),
        migrations.RemoveConstraint("load", "loaders_name_once"),
        migrations.RemoveConstraint("load", "loaders_nonce_once"),
        migrations.RemoveIndex("load", "loaders_load_due"),
        migrations.RemoveIndex("load", "loaders_by_project"),
        migrations.RemoveIndex("load", "loaders_line"),
        migrations.RemoveIndex("load", "loaders_schedule"),
        migrations.RemoveIndex("load", "loaders_not_ended"),
        *(migrations.RemoveField("load", name) for name in MOVED),
        migrations.RenameField("load", "kind", "store_kind"),
        migrations.RenameField("load", "id", "workload_ptr"),
        migrations.AlterField(
            "load",
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
        AlterBases("Load", ["work.workload"]),
        migrations.AddIndex(
            "load",
            models.Index(
                condition=models.Q(("next_run_at__isnull", False)),
                fields=["next_run_at"],
                name="loaders_schedule",
            ),
        ),
        migrations.AddIndex(
            "load",
            models.Index(
                condition=models.Q(("result", "")), fields=["workload_ptr"], name="loaders_not_ended"
            ),
        ),
    ]
