"""Samples of use belong to ``metrics``. The table stays until no version writes it any more."""

import django.db.models.deletion
from django.db import migrations, models

BATCH = 2000


def copy(apps, _schema):
    """Take over what was measured in the last two hours."""
    old, new = apps.get_model("notebooks", "Sample"), apps.get_model("metrics", "Sample")
    names = ("at", "cpu_milli", "memory_mib", "gpu_utilisation", "gpu_memory_mib")
    batch = []
    for uid, *values in old.objects.order_by("pk").values_list("workspace__uid", *names).iterator():
        batch.append(new(uid=uid, **dict(zip(names, values, strict=True))))
        if len(batch) == BATCH:
            new.objects.bulk_create(batch)
            batch = []
    new.objects.bulk_create(batch)


class Migration(migrations.Migration):
    dependencies = [
        ("notebooks", "0006_seal_env"),
        ("metrics", "0001_samples"),
    ]

    operations = [
        migrations.RunPython(copy, migrations.RunPython.noop),
        # so that a workspace's row may go while samples of an older version lie there
        migrations.AlterField(
            model_name="sample",
            name="workspace",
            field=models.ForeignKey(
                db_constraint=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="samples",
                to="notebooks.workspace",
            ),
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.DeleteModel(name="Sample")]
        ),
    ]
