"""Since when processor and GPUs are quiet is known by ``metrics``."""

from django.db import migrations


def copy(apps, _schema):
    """Take over since when all is quiet: nobody's time of idleness begins anew."""
    activity, quiet = apps.get_model("hubapi", "Activity"), apps.get_model("metrics", "Quiet")
    rows = activity.objects.filter(measured_at__isnull=False)
    quiet.objects.bulk_create(
        [
            quiet(uid=uid, known_at=measured_at, since=busy_at or measured_at)
            for uid, measured_at, busy_at in rows.values_list("uid", "measured_at", "last_busy_at")
        ],
        ignore_conflicts=True,
        batch_size=1000,
    )


class Migration(migrations.Migration):
    dependencies = [
        ("hubapi", "0003_activity_measured"),
        ("metrics", "0001_samples"),
    ]

    operations = [
        migrations.RunPython(copy, migrations.RunPython.noop),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField(model_name="activity", name="measured_at")]
        ),
    ]
